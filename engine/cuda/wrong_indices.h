// Indices of the data that a kernel could not use: an id, a target. Kernels skip them and leave a flag,
// one for each kind of operation, and whoever next waits for the GPU hears of it.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "engine/cuda/gpu.h"

namespace ft::cuda {

class WrongIndices {
 public:
  static constexpr std::size_t kPlaces = 16;                              // operations with indices
  static constexpr std::int64_t kBytes = kPlaces * sizeof(std::int32_t);  // of the GPU's memory

  WrongIndices(Gpu&, std::int32_t* flags);

  // The place for a Wrong that a kernel of this operation leaves. where: its module, if anybody knows.
  std::int32_t* flag_of(std::string_view op, std::string_view where);
  // Waits for the GPU. InternalError if there was one; the next call knows nothing of it.
  void refuse();

 private:
  struct Place {
    std::string_view op;
    std::string where = {};  // the first since the last wait
    bool more = false;       // of several
  };
  void clear();

  Gpu& gpu_;
  std::int32_t* flags_;  // (kPlaces), on the GPU
  std::array<Place, kPlaces> places_{};
};

}  // namespace ft::cuda
