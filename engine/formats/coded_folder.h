// A model folder with coded weights that looks like the folder of the dense model, whatever the code: names,
// places in files, and the reading of values.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/core/require.h"
#include "engine/files/convert.h"
#include "engine/files/safetensors/weights.h"

namespace ft {

// Stored: a folder's description of a weight; its dtype is that of the dense matrix. Data: codes and scales,
// which dequantize() takes.
template <class Stored, class Data>
class CodedFolder : public WeightSource {
 public:
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (std::string& name : files_->names())
      if (has(name)) out.push_back(std::move(name));
    return out;
  }
  // Rounds dequantized values to the weight's type, as transformers and bitsandbytes do, and then to the type
  // of `to`. Several threads may read.
  void read(const std::string& name, const Tensor& to, std::int64_t first = 0) const override {
    const Stored* s = find(name);
    if (!s) return files_->read(name, to, first);
    require(to.dense(), "a coded weight is read into dense memory");
    std::vector<float> values(static_cast<std::size_t>(to.numel()));
    {
      const std::lock_guard lock(reading_);
      if (held_name_ != name) {
        held_ = data(name);
        held_name_ = name;
      }
      dequantize(values, held_, first);
    }
    std::vector<std::byte> rounded(values.size() * static_cast<std::size_t>(size_of(s->dtype)));
    convert(rounded.data(), s->dtype, values.data(), DType::f32, to.numel());
    check_values(name, {rounded.data(), s->dtype, {to.numel()}}, first);
    convert(to.data, to.dtype, rounded.data(), s->dtype, to.numel());
  }
  // Finds codes and scales too.
  StoredBytes find_stored(const std::string& name, DType type, std::int64_t elements) const override {
    return files_->find_stored(name, type, elements);
  }

  // nullptr: the weight is not coded.
  const Stored* find(const std::string& weight) const {
    const auto it = weights_.find(weight);
    return it == weights_.end() ? nullptr : &it->second;
  }
  virtual Data data(const std::string& weight) const = 0;

 protected:
  explicit CodedFolder(std::unique_ptr<ModelFolder> files) : files_(std::move(files)) {}
  // Looks at values of a weight, from element `first` on, in its type.
  virtual void check_values(const std::string& /*weight*/, const Tensor& /*values*/,
                            std::int64_t /*first*/) const {}

  std::unique_ptr<ModelFolder> files_;
  std::map<std::string, Stored> weights_;

 private:
  mutable std::mutex reading_;
  mutable std::string held_name_;  // the weight that was read last
  mutable Data held_;
};

}  // namespace ft
