// Writes the data of safetensors files that were created without data. Several processes write their ranges
// at the same time.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/files/safetensors/safetensors.h"

namespace ft {

class SafetensorsFiller {
 public:
  // Opens all *.safetensors of a folder.
  explicit SafetensorsFiller(const std::string& folder);
  SafetensorsFiller(const SafetensorsFiller&) = delete;
  SafetensorsFiller& operator=(const SafetensorsFiller&) = delete;
  ~SafetensorsFiller();

  // Writes elements, in host memory, from number `first` on. f32, bf16 and f16 are converted to the tensor's
  // type; others must have that type. Throws UserError (numeric) for NaN and Inf.
  void write(const std::string& tensor, std::int64_t first, const Tensor& values);
  void sync();  // waits until all written data is on the disk

 private:
  struct File {
    std::unique_ptr<SafetensorsFile> header;
    int fd = -1;
  };
  struct Place {
    const File* file;
    const StoredTensor* tensor;
  };

  std::vector<File> files_;
  std::map<std::string, Place> places_;
  std::vector<std::byte> staging_;
};

}  // namespace ft
