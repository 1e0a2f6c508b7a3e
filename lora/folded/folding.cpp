#include "lora/folded/folding.h"

#include "lora/adapter.h"

namespace ft::lora {

FoldedAdapter::FoldedAdapter(const std::string& folder)
    : files(folder, Exit::input, KindsRead::all), json(JsonObject::read(files.config_file())) {}

FoldedLinear::FoldedLinear(const FoldedAdapter& adapter, const ChosenLinear& chosen)
    : name(in_peft(chosen.linear->name)),
      in(chosen.linear->in),
      out(chosen.linear->out),
      rank(chosen.rank),
      scale(chosen.scale),
      adapter_(&adapter) {}

std::string FoldedLinear::complete(std::string_view tensor) const {
  if (tensor.starts_with("base_model.")) return std::string(tensor);
  return str(kPeftPrefix, name, ".", tensor);
}

const StoredTensor* FoldedLinear::find(std::string_view tensor) const {
  const std::string own = complete(tensor);
  return own.starts_with(kPeftPrefix) ? adapter_->files.find(own) : adapter_->files.weights().find(own);
}

const StoredTensor& FoldedLinear::at(std::string_view tensor) const {
  const StoredTensor* t = find(tensor);
  if (!t)
    throw UserError(Exit::input, str(adapter_->files.weights().path(), ": ", complete(tensor),
                                     " is missing; ", adapter_->files.config_file(), " expects it"));
  return *t;
}

void FoldedLinear::refuse(std::string_view tensor, const std::string& fault) const {
  throw UserError(Exit::input, str(adapter_->files.weights().path(), ": ", at(tensor).name, " ", fault));
}

const std::vector<std::int64_t>& FoldedLinear::shape(std::string_view tensor) const {
  const StoredTensor& t = at(tensor);
  if (!dtype_of(t.type) || bits_of(t.type) < 16 || t.type == StoredType::i32)
    refuse(tensor, str("is ", name_of(t.type), ", not a float type that ft reads"));
  adapter_->used.insert(&t);
  return t.shape;
}

void FoldedLinear::expect(std::string_view tensor, const std::vector<std::int64_t>& wanted) const {
  if (const std::vector<std::int64_t>& own = shape(tensor); own != wanted)
    refuse(tensor, str("is ", shape_text(own), ", the model and ", adapter_->files.config_file(), " ask for ",
                       shape_text(wanted)));
}

std::vector<float> FoldedLinear::values(std::string_view tensor) const {
  const StoredTensor& t = at(tensor);
  std::vector<float> values(static_cast<std::size_t>(t.numel));
  if (t.numel > 0)
    adapter_->files.weights().read(
        t, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {t.numel}));
  return values;
}

FoldedValues FoldedLinear::matrix(std::string_view tensor) const {
  const StoredTensor& t = at(tensor);
  require(t.shape.size() == 2, "a matrix that check() did not see");
  return {values(tensor), {t.shape[0], t.shape[1]}};
}

FoldedValues FoldedLinear::product(Ops& ops, std::string_view left, std::string_view right) const {
  FoldedValues up = matrix(left), down = matrix(right);
  FoldedValues y{{}, {up.shape[0], down.shape[1]}};
  y.values.resize(static_cast<std::size_t>(y.shape.numel()));
  add_product(ops, y.tensor(), down.tensor(), up.tensor(), 1, false);
  return y;
}

}  // namespace ft::lora
