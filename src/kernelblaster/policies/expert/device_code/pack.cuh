// Neighbouring elements that are moved in one memory instruction.
template <typename T, int N>
struct alignas(N * sizeof(T)) Pack {
  T at[N];
};
