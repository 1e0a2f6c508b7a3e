// Ranges of a pass's rows with the adapter that each uses, for a model that has several adapters.
#pragma once
#include <cstdint>

namespace ft {

struct AdapterRows {
  std::int64_t begin, end;
  std::int32_t adapter;  // -1: none
};

}  // namespace ft
