#include "lora/convert.h"

#include <algorithm>
#include <cmath>

#include "engine/io/file.h"
#include "engine/io/safetensors_write.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

// The values of a tensor with what belongs below or beside them.
class Doubled {
 public:
  Doubled(const SafetensorsFile& from, const Attached& attached, const FirstFactors& first)
      : from_(from), first_(first) {
    for (std::size_t i = 0; i < attached.adapters.size(); ++i) {
      factors_[attached.adapters[i]->a.name] = {i, true};
      factors_[attached.adapters[i]->b.name] = {i, false};
    }
  }

  TensorSpec spec(const StoredTensor& t) const {
    Shape shape;
    for (const auto d : t.shape) shape.dims[shape.rank++] = d;
    if (const auto f = factors_.find(t.name); f != factors_.end()) shape.dims[f->second.is_a ? 0 : 1] *= 2;
    return {t.name, *dtype_of(t.type), shape};
  }

  Tensor operator()(const TensorSpec& spec) {
    values_.resize(static_cast<std::size_t>(spec.shape.numel()));
    const Tensor y(reinterpret_cast<std::byte*>(values_.data()), DType::f32, spec.shape);
    const StoredTensor& stored = *from_.find(spec.name);
    const auto f = factors_.find(spec.name);
    if (f == factors_.end()) {
      from_.read(stored, y);
    } else if (const Factors& first = first_(f->second.adapter); f->second.is_a) {
      from_.read(stored, y.slice(0, spec.shape[0] / 2));
      std::copy(first.a.begin(), first.a.end(), values_.begin() + spec.shape.numel() / 2);
    } else {
      const std::int64_t r = spec.shape[1] / 2;
      from_.read(stored, y.columns(0, r));
      for (std::int64_t o = 0; o < spec.shape[0]; ++o)
        for (std::int64_t k = 0; k < r; ++k)
          values_[static_cast<std::size_t>((2 * o + 1) * r + k)] =
              -first.b[static_cast<std::size_t>(o * r + k)];
    }
    return y;
  }

 private:
  struct Factor {
    std::size_t adapter = 0;
    bool is_a = false;
  };
  const SafetensorsFile& from_;
  const FirstFactors& first_;
  std::map<std::string, Factor> factors_;
  std::vector<float> values_;
};

}  // namespace

LoraConfig plain_config(LoraConfig c) {
  const double more = c.use_rslora ? std::sqrt(2.0) : 2;  // so that the scale stays
  c.r *= 2;
  c.lora_alpha *= more;
  for (auto& [_, rank] : c.rank_pattern) rank *= 2;
  for (auto& [_, alpha] : c.alpha_pattern) alpha *= more;
  c.init_lora_weights = LoraInit::kaiming;
  return c;
}

void make_plain(const std::string& folder, const LoraConfig& config, const Attached& attached,
                const FirstFactors& first, const std::string& base_model) {
  const std::string file = join_path(folder, "adapter_model.safetensors");
  const SafetensorsFile from(file);
  Doubled doubled(from, attached, first);
  std::vector<TensorSpec> specs;
  for (const StoredTensor& t : from.tensors()) specs.push_back(doubled.spec(t));
  write_safetensors(file, specs, [&](const TensorSpec& s) { return doubled(s); });
  write_file(join_path(folder, "adapter_config.json"),
             adapter_config_text(plain_config(config), attached, base_model));
}

}  // namespace ft::lora
