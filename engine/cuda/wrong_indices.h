// Indices in the data that a kernel could not use, such as an id or a target. Kernels skip them and set a
// flag, one for each kind of operation; the next wait for the GPU reports it.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "engine/cuda/gpu.h"

namespace ft::cuda {

class WrongIndices {
 public:
  static constexpr std::size_t kPlaces = 32;                              // number of operations with indices
  static constexpr std::int64_t kBytes = kPlaces * sizeof(std::int32_t);  // of the GPU's memory

  WrongIndices(Gpu&, std::int32_t* flags);

  // The place for a Wrong that a kernel of this operation writes. where: its module, if known.
  std::int32_t* flag_of(std::string_view op, std::string_view where);
  // Waits for the GPU. Throws InternalError if an index was wrong, and clears the flags.
  void refuse();

 private:
  struct Place {
    std::string_view op;
    std::string where = {};  // the first module since the last wait
    bool more = false;       // several modules since then
  };
  void clear();

  Gpu& gpu_;
  std::int32_t* flags_;  // (kPlaces), on the GPU
  std::array<Place, kPlaces> places_{};
};

}  // namespace ft::cuda
