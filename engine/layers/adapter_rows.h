// Which rows of a pass have which adapter, where a model has several.
#pragma once
#include <cstdint>

namespace ft {

struct AdapterRows {
  std::int64_t begin, end;
  std::int32_t adapter;  // -1: none
};

}  // namespace ft
