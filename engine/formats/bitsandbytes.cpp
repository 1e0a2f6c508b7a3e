#include "engine/formats/bitsandbytes.h"

#include <algorithm>
#include <cstring>

#include "engine/files/json.h"
#include "engine/formats/fp8_folder.h"
#include "engine/formats/mxfp4.h"

namespace ft {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::int64_t kLongestState = 1 << 16;  // bytes of JSON
constexpr std::int64_t kLargestSide = std::int64_t{1} << 30;

template <class T>
Tensor view(std::vector<T>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), DTypeOf<T>::value, {static_cast<std::int64_t>(v.size())}};
}

// Returns the weight whose quant_state a tensor is; empty if it is another tensor.
std::string weight_of_state(const std::string& name) {
  const auto at = name.find(kState);
  return at == std::string::npos ? "" : name.substr(0, at);
}

DType stored_dtype(const JsonObject& j) {
  const std::string name = j.text("dtype");
  for (const DType t : {DType::f32, DType::bf16, DType::f16})
    if (name == name_of(t)) return t;
  j.refuse("dtype", "float32, bfloat16 or float16");
}

std::int64_t elements_of(const WeightInfo& i) {
  std::int64_t n = 1;
  for (const auto d : i.shape) n *= d;
  return n;
}

}  // namespace

bool BitsAndBytesFolder::is_one(const ModelFolder& files) {
  const auto names = files.names();
  return std::any_of(names.begin(), names.end(), [](auto& n) { return !weight_of_state(n).empty(); });
}

BitsAndBytesFolder::BitsAndBytesFolder(std::unique_ptr<ModelFolder> files) : CodedFolder(std::move(files)) {
  for (const std::string& name : files_->names()) {
    const std::string weight = weight_of_state(name);
    if (weight.empty()) continue;
    const StoredFourBit state = read_state(weight, name);
    check_parts(weight, state);
    weights_[weight] = state;
  }
}

StoredFourBit BitsAndBytesFolder::read_state(const std::string& weight, const std::string& name) const {
  const WeightInfo info = files_->info(name);
  const std::int64_t bytes = elements_of(info);
  const std::string where = info.file + ": " + name;
  if (info.type != StoredType::u8 || bytes > kLongestState)
    throw UserError(Exit::input, printable(where) + ": is not bitsandbytes' JSON");
  std::vector<std::uint8_t> text(static_cast<std::size_t>(bytes));
  files_->read(name, view(text));
  const JsonObject j = JsonObject::parse({reinterpret_cast<const char*>(text.data()), text.size()}, {where});
  StoredFourBit s;
  const std::string type = j.text("quant_type");
  if (type != "nf4" && type != "fp4") j.refuse("quant_type", "nf4 or fp4");
  s.form.book = type == "nf4" ? FourBitBook::nf4 : FourBitBook::fp4;
  s.form.block = j.integer("blocksize", 32, 4096);
  if (!is_four_bit_block(s.form.block)) j.refuse("blocksize", "a power of two");
  s.dtype = stored_dtype(j);
  const auto shape = j.integers("shape");
  if (shape.size() != 2 ||
      std::any_of(shape.begin(), shape.end(), [](auto d) { return d < 1 || d > kLargestSide; }))
    j.refuse("shape", "the rows and columns of a matrix");
  s.shape = {shape[0], shape[1]};
  s.form.nested = files_->has(weight + ".nested_absmax");
  if (!s.form.nested) return s;
  if (j.integer("nested_blocksize", 1) != kNestedBlock) j.refuse("nested_blocksize", "256");
  if (j.text("nested_dtype") != "float32") j.refuse("nested_dtype", "float32");
  s.nested_offset = static_cast<float>(j.number("nested_offset"));
  return s;
}

// Checks that all parts of a weight exist with the right type and size, and that its tables are bitsandbytes'
// own.
void BitsAndBytesFolder::check_parts(const std::string& weight, const StoredFourBit& s) const {
  const auto expect = [&](const std::string& name, StoredType type, std::int64_t elements) {
    const WeightInfo i = files_->info(name);
    if (i.type == type && elements_of(i) == elements) return;
    throw UserError(Exit::input, str(printable(i.file), ": ", printable(name), " is ", name_of(i.type), " ",
                                     shape_text(i.shape), "; with its quant_state it should hold ", elements,
                                     " ", name_of(type)));
  };
  const auto expect_map = [&](const std::string& name, std::span<const float> want) {
    expect(name, StoredType::f32, static_cast<std::int64_t>(want.size()));
    std::vector<float> map(want.size());
    files_->read(name, view(map));
    if (!std::equal(map.begin(), map.end(), want.begin()))
      throw UserError(Exit::input, str(printable(files_->info(name).file), ": ", printable(name),
                                       " is not bitsandbytes' table; ft knows nf4 and fp4"));
  };
  const std::int64_t n = s.shape.numel(), blocks = s.form.blocks(n);
  expect(weight, StoredType::u8, (n + 1) / 2);
  expect(weight + ".absmax", s.form.nested ? StoredType::u8 : StoredType::f32, blocks);
  expect_map(weight + ".quant_map", four_bit_values(s.form.book).of);
  if (!s.form.nested) return;
  expect(weight + ".nested_absmax", StoredType::f32, (blocks + kNestedBlock - 1) / kNestedBlock);
  expect_map(weight + ".nested_quant_map", nested_map());
}

bool BitsAndBytesFolder::has(const std::string& name) const {
  if (!files_->has(name)) return false;
  if (weights_.contains(name)) return true;
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    if (name.ends_with(part) && weights_.contains(name.substr(0, name.size() - std::strlen(part))))
      return false;
  return weight_of_state(name).empty();
}

WeightInfo BitsAndBytesFolder::info(const std::string& name) const {
  WeightInfo i = files_->info(name);
  if (const StoredFourBit* s = find(name)) {
    i.type = stored_type(s->dtype);
    i.shape = {s->shape[0], s->shape[1]};
  }
  return i;
}

FourBitData BitsAndBytesFolder::data(const std::string& weight) const {
  const StoredFourBit& s = weights_.at(weight);
  const auto n = static_cast<std::size_t>(s.shape.numel());
  const auto blocks = static_cast<std::size_t>(s.form.blocks(s.shape.numel()));
  FourBitData q{.form = s.form, .elements = s.shape.numel()};
  q.codes.resize((n + 1) / 2);
  files_->read(weight, view(q.codes));
  if (!s.form.nested) {
    q.absmax.resize(blocks);
    files_->read(weight + ".absmax", view(q.absmax));
    return q;
  }
  q.absmax_codes.resize(blocks);
  files_->read(weight + ".absmax", view(q.absmax_codes));
  q.nested_absmax.resize((blocks + kNestedBlock - 1) / kNestedBlock);
  files_->read(weight + ".nested_absmax", view(q.nested_absmax));
  q.nested_offset = s.nested_offset;
  return q;
}

std::unique_ptr<WeightSource> open_model_folder(const std::string& folder, const StoredNames& names) {
  auto files = std::make_unique<ModelFolder>(folder);
  files->name_as(names);
  if (Mxfp4Folder::is_one(*files)) return std::make_unique<Mxfp4Folder>(std::move(files));
  if (Fp8Folder::is_one(*files)) return std::make_unique<Fp8Folder>(std::move(files));
  if (!BitsAndBytesFolder::is_one(*files)) return files;
  return std::make_unique<BitsAndBytesFolder>(std::move(files));
}

}  // namespace ft
