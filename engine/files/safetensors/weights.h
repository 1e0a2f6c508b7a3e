// Sources of weights, read by name into given memory. A Hugging Face model folder is such a source.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors/safetensors.h"

namespace ft {

struct WeightInfo {
  std::string file;  // for messages
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The source whose weights this one changes; null: none.
  virtual const WeightSource* changed() const { return nullptr; }
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual bool has(const std::string& name) const = 0;
  // Throws UserError (input) if there is no such weight, and names the source.
  virtual WeightInfo info(const std::string& name) const = 0;
  // Reads to.numel() elements from number `first` on, with conversion; see SafetensorsFile::read.
  virtual void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const = 0;
  // Returns the location of a weight's bytes if a file stores it as `elements` of `type`; empty otherwise.
  // For a 4-bit weight these are the codes.
  virtual StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const = 0;
  // Throws UserError (input) unless the weight exists, has a float type that ft reads, and has this shape:
  // "models/x/model.safetensors: NAME is [4096, 11007], config.json asks for [4096, 11008]".
  void expect(const std::string& name, const Shape& shape) const;
};

// Matrices that files may hold stacked: one tensor (E, p out, in), in which the p matrices of each of E
// experts lie one after another. Also a single matrix with another name.
struct StoredStack {
  std::string from;             // end of the stack's name
  std::vector<std::string> to;  // (p) ends of the matrices' names, with % for the expert's number
};

// The differences between names in a model's files and the names of its parameters.
struct StoredNames {
  std::string prefix;  // "model."; if no name begins with it, it is added to all names except the head's
  std::string head;    // lm_head.weight
  std::vector<std::string> skip;  // ends of names that are not weights: masks, tables
  std::vector<StoredStack> stacks = {};
  std::string nested = {};  // part of names, after the prefix, that is left out: "language_model."
  std::vector<std::string> others = {};  // beginnings of names of other models in the same files
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
  // Converts the names of weights to the names of their parameters.
  void name_as(const StoredNames&);

 private:
  struct Entry {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
    std::int64_t first = 0;                // index of the element at which a stack's matrix begins
    std::vector<std::int64_t> shape = {};  // of the matrix; empty: the tensor is not a stack
  };
  void leave_out(const std::string& prefix, const std::string& nested);
  void take_apart(const std::vector<StoredStack>&);
  void read_index(const std::string& index);
  const Entry& at(const std::string& name) const;

  std::string folder_;
  Nonfinite nonfinite_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace ft
