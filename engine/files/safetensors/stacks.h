// The tensors of a model's files, for writing, if one tensor there holds the matrices of all experts of a
// layer.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/weights.h"

namespace ft {

class Stacks {
 public:
  struct Place {
    std::string tensor;
    std::int64_t first = 0;  // number of the matrix's first element in it
  };

  // Replaces matrices whose names fit a stack by one tensor (E, p out, in), at the place of the first; keeps
  // other tensors. An empty list of stacks changes nothing.
  Stacks(const std::vector<TensorSpec>& tensors, const std::vector<StoredStack>& stacks);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }  // of the files
  // Returns the place of one of the given tensors.
  Place place_of(const std::string& name) const;
  // Returns the given tensors in one tensor of the files, in its order.
  const std::vector<TensorSpec>& parts_of(const std::string& tensor) const { return parts_.at(tensor); }

 private:
  std::vector<TensorSpec> tensors_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::vector<TensorSpec>> parts_;
};

}  // namespace ft
