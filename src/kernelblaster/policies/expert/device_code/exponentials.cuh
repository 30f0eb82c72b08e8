// The largest value so far, and the sum of exponentials of the differences from it.
template <typename T>
struct Exponentials {
  T largest, sum;

  __device__ void take(T value) {
    const T scale = exp(-fabs(value - largest));
    if (value > largest) {
      sum = sum * scale + 1;
      largest = value;
    } else if (value != -INFINITY) {
      sum += scale;
    }
  }
};

struct JoinExponentials {
  template <typename T>
  __device__ Exponentials<T> operator()(Exponentials<T> a, Exponentials<T> b) const {
    const T largest = b.largest > a.largest ? b.largest : a.largest;
    if (largest == -INFINITY) return {largest, a.sum + b.sum};
    return {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
  }
};
