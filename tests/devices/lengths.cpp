// Prints the length of each instruction in the bytes on standard input (instruction.h), 0 where it is not known; each line of
// the input is one instruction in hexadecimal digits.
#include <iostream>
#include <vector>

#include "instruction.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<uint8_t> code;
    for (size_t i = 0; i + 1 < line.size(); i += 2) code.push_back((uint8_t)std::stoi(line.substr(i, 2), nullptr, 16));
    auto found = stepping::decode(code.data(), code.size());
    std::cout << (found.does == stepping::Does::kUnknown ? 0 : found.length) << "\n";
  }
}
