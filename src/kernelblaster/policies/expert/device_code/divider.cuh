// Divides numbers below 2^31 by the same one again and again.
struct Divider {
  unsigned by, inverse;
  __device__ Divider(unsigned by) : by(by), inverse(0xffffffffu / by) {}

  __device__ void divide(unsigned number, int64_t& quotient, int64_t& rest) const {
    const unsigned low = __umulhi(number, inverse);  // the quotient, or one less
    const unsigned left = number - low * by;
    quotient = low + (left >= by);
    rest = left >= by ? left - by : left;
  }
};
