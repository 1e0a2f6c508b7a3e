// Division of non-negative integers, rounded up.
#pragma once
#include <cstdint>

namespace ft {

constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return ceil_div(n, unit) * unit; }

}  // namespace ft
