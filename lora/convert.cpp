#include "lora/convert.h"

#include <algorithm>
#include <cmath>

#include "engine/files/file.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "lora/peft.h"

namespace ft::lora {
namespace {

Shape shape_of(const StoredTensor& t) {
  Shape shape;
  require(t.shape.size() <= std::size(shape.dims), "an adapter's tensor has at most four dimensions");
  for (const auto d : t.shape) shape.dims[shape.rank++] = d;
  return shape;
}

// The values of a tensor, with the first factors appended below A and beside B.
class Doubled {
 public:
  Doubled(const SafetensorsFile& from, const Attached& attached, const FirstFactors& first)
      : from_(from), first_(first) {
    for (std::size_t i = 0; i < attached.adapters.size(); ++i) {
      const LoraAdapter& l = as_lora(*attached.adapters[i]);
      factors_[peft_name(l.a, attached)] = {i, true};
      factors_[peft_name(l.b, attached)] = {i, false};
    }
  }

  TensorSpec spec(const StoredTensor& t) const {
    Shape shape = shape_of(t);
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

// Returns a name that no other file of a checkpoint has: values are written into its files by name.
std::string first_name(const Parameter& p, const Attached& attached) {
  return "first." + peft_name(p, attached);
}

// A second copy of a tensor in the file, under another name or transposed.
struct Repeated {
  std::string name, of;
  bool turned;
};

// The tensors of a file, and second copies of some.
class WithRepeated {
 public:
  WithRepeated(const SafetensorsFile& from, const std::vector<Repeated>& more) : from_(from) {
    for (const Repeated& r : more) more_[r.name] = r;
  }
  std::vector<TensorSpec> specs() const {
    std::vector<TensorSpec> all;
    for (const StoredTensor& t : from_.tensors()) all.push_back({t.name, *dtype_of(t.type), shape_of(t)});
    for (const auto& [name, r] : more_) {
      const StoredTensor& t = *from_.find(r.of);
      const Shape shape = shape_of(t);
      all.push_back({name, *dtype_of(t.type), r.turned ? Shape{shape[1], shape[0]} : shape});
    }
    return all;
  }
  Tensor operator()(const TensorSpec& spec) {
    const auto repeated = more_.find(spec.name);
    const bool turned = repeated != more_.end() && repeated->second.turned;
    read(*from_.find(repeated == more_.end() ? spec.name : repeated->second.of), spec.dtype);
    const Tensor stored(stored_.data(), spec.dtype, spec.shape);
    if (!turned) return stored;
    values_.resize(static_cast<std::size_t>(stored.numel()));
    const std::int64_t rows = spec.shape[0], columns = spec.shape[1];
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        values_[static_cast<std::size_t>(r * columns + c)] = stored.as<float>()[c * rows + r];
    return {reinterpret_cast<std::byte*>(values_.data()), DType::f32, spec.shape};
  }

 private:
  void read(const StoredTensor& t, DType type) {
    stored_.resize(static_cast<std::size_t>(t.numel * size_of(type)));
    from_.read(t, Tensor(stored_.data(), type, shape_of(t)));
  }

  const SafetensorsFile& from_;
  std::map<std::string, Repeated> more_;
  std::vector<std::byte> stored_;
  std::vector<float> values_;  // turned
};

}  // namespace

LoraConfig plain_config(LoraConfig c) {
  const double more = c.use_rslora ? std::sqrt(2.0) : 2;  // keeps the scale
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

void write_first_factors(const std::string& folder, const Attached& attached, const FirstFactors& first) {
  std::vector<TensorSpec> specs;
  std::map<std::string, const std::vector<float>*> values;
  for (std::size_t i = 0; i < attached.adapters.size(); ++i) {
    const LoraAdapter& l = as_lora(*attached.adapters[i]);
    const Factors& f = first(i);
    for (const auto& [p, own] : {std::pair(&l.a, &f.a), std::pair(&l.b, &f.b)}) {
      specs.push_back({first_name(*p, attached), DType::f32, p->whole_shape()});
      values[specs.back().name] = own;
    }
  }
  std::vector<float> held;
  write_safetensors(join_path(folder, kFirstFactors), specs, [&](const TensorSpec& s) {
    held = *values.at(s.name);
    return Tensor(reinterpret_cast<std::byte*>(held.data()), DType::f32, s.shape);
  });
}

std::vector<Factors> read_first_factors(const std::string& folder, const Attached& attached, Exit exit) {
  const std::string path = join_path(folder, kFirstFactors);
  if (!path_exists(path))
    throw UserError(exit, str(printable(folder), ": init_lora_weights is lora_ga, and ", kFirstFactors,
                              " with the first A and B is missing: they are in no other file. Use the result "
                              "of the run, or convert the adapter where it was made (save_pretrained with "
                              "path_initial_model_for_weight_conversion)"));
  const SafetensorsFile file(path, exit);
  const auto read = [&](const Parameter& p) {
    const std::string name = first_name(p, attached);
    const StoredTensor* t = file.find(name);
    const Shape& shape = p.whole_shape();
    if (!t || t->shape != std::vector<std::int64_t>(shape.dims, shape.dims + shape.rank) ||
        t->type != StoredType::f32)
      throw UserError(exit, str(path, ": ", name, " is ",
                                t ? str(name_of(t->type), " ", shape_text(t->shape)) : "missing",
                                ", the adapter asks for F32 ", to_string(shape)));
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    file.read(*t, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {shape.numel()}));
    return values;
  };
  std::vector<Factors> all;
  for (LinearAdapter* adapter : attached.adapters) {
    const LoraAdapter& l = as_lora(*adapter);
    all.push_back({read(l.a), read(l.b)});
  }
  return all;
}

void repeat_for_head(const std::string& folder, const Attached& attached, const std::string& table) {
  const std::string head = kPeftPrefix + in_peft(attached.head);
  std::vector<Repeated> more;
  if (!table.empty()) more.push_back({head + ".weight", table, false});
  if (attached.tied_lora) {
    more.push_back({head + ".lora_A.weight", peft_name(attached.embedding->b, attached), true});
    more.push_back({head + ".lora_B.weight", peft_name(attached.embedding->a, attached), true});
  }
  if (more.empty()) return;
  const std::string file = join_path(folder, "adapter_model.safetensors");
  const SafetensorsFile from(file);
  WithRepeated all(from, more);
  write_safetensors(file, all.specs(), [&](const TensorSpec& s) { return all(s); });
}

}  // namespace ft::lora
