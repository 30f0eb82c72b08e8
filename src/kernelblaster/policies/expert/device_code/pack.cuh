// Neighbouring elements that are moved in one memory instruction.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

// Stores a pack with one instruction; an assignment may be taken apart by the compiler.
template <typename P>
__device__ void write_pack(P* to, const P& value) {
  if constexpr (sizeof(P) == 16) {
    __stwb(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&value));
  } else if constexpr (sizeof(P) == 8) {
    __stwb(reinterpret_cast<uint2*>(to), *reinterpret_cast<const uint2*>(&value));
  } else {
    *to = value;
  }
}
