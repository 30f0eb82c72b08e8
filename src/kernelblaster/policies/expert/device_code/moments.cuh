// Sum and sum of squares, in double: their difference is safe as long as the mean is not a hundred
// million times larger than the spread.
struct Moments {
  double sum, squares;
};

struct JoinMoments {
  __device__ Moments operator()(Moments a, Moments b) const {
    return {a.sum + b.sum, a.squares + b.squares};
  }
};
