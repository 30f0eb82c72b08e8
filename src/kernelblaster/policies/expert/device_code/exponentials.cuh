// The largest value so far, and the sum of exponentials of the differences from it.
template <typename T>
struct Exponentials {
  T largest, sum;

  __device__ void take(T value) {
    const T scale = exp(-fabs(value - largest));
    if (value > largest) {
      sum = sum * scale + (1 + (value - value));  // an infinite value makes the sum NaN
      largest = value;
    } else if (value != -INFINITY) {
      sum += scale;
    }
  }

  // Several values at once: what is known already is scaled once for all of them.
  template <int N>
  __device__ void take(const T (&values)[N]) {
    T most = values[0];
    #pragma unroll
    for (int k = 1; k < N; ++k) most = values[k] > most ? values[k] : most;
    if (most > largest) {
      sum *= exp(largest - most);
      largest = most;
    }
    const T from = largest == -INFINITY ? (T)0 : largest;
    T more = 0;
    #pragma unroll
    for (int k = 0; k < N; ++k) more += exp(values[k] - from);
    sum += more;
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
