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

// What one thread finds of them: a few values at a time as differences from the first of these, in the
// elements' own type. They are of the spread's size whatever the mean is, a single large value spoils few
// others, and arithmetic in double, which is slow, is needed once for all of them.
template <typename T>
struct Differences {
  static constexpr int FEW = 16;
  Moments all = {0, 0};
  T first = 0, sum = 0, squares = 0;
  int count = 0;

  template <int N>
  __device__ void take(const T (&values)[N]) {
    if (count == 0) {
      first = values[0];
      sum = squares = 0;
    }
    #pragma unroll
    for (int k = 0; k < N; ++k) {
      const T difference = values[k] - first;
      sum += difference;
      squares += difference * difference;
    }
    count += N;
    if (count >= FEW) close();
  }

  __device__ void close() {
    const double from = first, part = sum, together = count * from + part;
    all.sum += together;
    all.squares += from * (together + part) + squares;
    count = 0;
  }

  __device__ Moments moments() {
    if (count > 0) close();
    return all;
  }
};
