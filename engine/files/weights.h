// The source of weights: by name, into place. A Hugging Face model folder is one such source.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors.h"

namespace ft {

struct WeightInfo {
  std::string file;  // for messages
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual bool has(const std::string& name) const = 0;
  // Throws a UserError that names the source when there is no such weight.
  virtual WeightInfo info(const std::string& name) const = 0;
  // Reads to.numel() elements from number `first` on, converting; see SafetensorsFile::read.
  virtual void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const = 0;
  // The bytes of a weight, where a file holds `elements` of `type` as they are; empty: none does. For a
  // weight in 4 bits they are the codes.
  virtual StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const = 0;
  // Throws unless the weight exists, has a float type that ft reads, and has this shape:
  // "models/x/model.safetensors: NAME is [4096, 11007], config.json asks for [4096, 11008]".
  void expect(const std::string& name, const Shape& shape) const;
};

// Matrices that files may hold stacked: (E, p out, in), the p of each of E side by side, or one matrix with
// another name.
struct StoredStack {
  std::string from;             // end of its name
  std::vector<std::string> to;  // (p) ends of theirs, a % for the number
};

// How a model's files may differ from what its parameters are called.
struct StoredNames {
  std::string prefix;             // model. where no name begins with it all but the head's get it
  std::string head;               // lm_head.weight
  std::vector<std::string> skip;  // ends of names that are no weights: masks, tables
  std::vector<StoredStack> stacks = {};
};

// model.safetensors, or the files that model.safetensors.index.json names.
class ModelFolder : public WeightSource {
 public:
  explicit ModelFolder(const std::string& folder, Nonfinite nonfinite = Nonfinite::refuse);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  WeightInfo info(const std::string& name) const override;
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override;
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override;

  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }
  std::int64_t bytes() const;  // of all weights
  // From here on weights have their parameters' names.
  void name_as(const StoredNames&);

 private:
  struct Entry {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
    std::int64_t first = 0;                // element of it, where a matrix of a stack begins
    std::vector<std::int64_t> shape = {};  // of the matrix; empty: the tensor is no stack
  };
  void take_apart(const std::vector<StoredStack>&);
  void read_index(const std::string& index);
  const Entry& at(const std::string& name) const;

  std::string folder_;
  Nonfinite nonfinite_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ft
