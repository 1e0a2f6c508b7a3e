// Writes parts of tensors to their places in the files of a checkpoint or a result.
#pragma once
#include <string>

#include "engine/files/safetensors/safetensors_fill.h"
#include "engine/train/saved_parts.h"
#include "engine/zero/host_pieces.h"

namespace ft {

// Writes values in host memory, from a parameter's element `first` on, to their places in the complete
// tensor.
inline void write_part(SafetensorsFiller& filler, const FilePlace& place, const Parameter& p,
                       std::int64_t first, const Tensor& host) {
  each_piece(p, first, host.numel(), [&](std::int64_t here, std::int64_t at, std::int64_t n) {
    filler.write(place.name, place.begins + at, host.elements(here - first, n));
  });
}

class PartFiller final : public PartSink {
 public:
  explicit PartFiller(const std::string& folder) : filler_(folder) {}

  void part(const FilePlace& place, const Parameter& p, std::int64_t first, HostPieces& pieces,
            const Tensor& values) override {
    pieces.out_of(values, [&](const Tensor& piece, std::int64_t begin) {
      write_part(filler_, place, p, first + begin, piece);
    });
  }
  void values(const std::string& name, std::int64_t first, const Tensor& host) override {
    filler_.write(name, first, host);
  }
  void sync() { filler_.sync(); }

 private:
  SafetensorsFiller filler_;
};

}  // namespace ft
