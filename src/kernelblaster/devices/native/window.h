// Where device addresses lie, in every process that knows of them: the judge draws them from here (devices/device.py has
// the same numbers), host code is given them, players map memory behind them.
#pragma once
#include <cstdint>

namespace window {
constexpr uint64_t kBegin = 0x390000000000, kBytes = 1ull << 40;
}
