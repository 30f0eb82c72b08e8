// Loads and stores of what is touched once, so that the caches keep other things.
template <typename P>
__device__ P read_once(const P* from) {
  if constexpr (sizeof(P) == 16) {
    const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(from));
    return *reinterpret_cast<const P*>(&bits);
  } else if constexpr (sizeof(P) == 4) {
    const unsigned bits = __ldcs(reinterpret_cast<const unsigned*>(from));
    return *reinterpret_cast<const P*>(&bits);
  } else {
    return *from;
  }
}

template <typename P>
__device__ void write_once(P* to, const P& value) {
  if constexpr (sizeof(P) == 16) {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&value));
  } else if constexpr (sizeof(P) == 4) {
    __stcs(reinterpret_cast<unsigned*>(to), *reinterpret_cast<const unsigned*>(&value));
  } else {
    *to = value;
  }
}
