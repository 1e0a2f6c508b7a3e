#include "engine/formats/fp8_folder.h"

#include <algorithm>

namespace ft {
namespace {

// Ends of the names of tensors that belong to a weight.
constexpr std::string_view kEnds[] = {"_scale", "_scale_inv"};
constexpr std::string_view kWeightName = "weight", kInputScale = "input_scale";

// Returns the name with another end; empty if it does not end with `end`.
std::string renamed(const std::string& name, std::string_view end, std::string_view by) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) + std::string(by) : "";
}

// Returns the scheme of a matrix with scales of this shape; empty: they fit no scheme.
std::optional<Fp8Scheme> scheme_for(std::int64_t out, std::int64_t in,
                                    const std::vector<std::int64_t>& scales) {
  using Sizes = std::vector<std::int64_t>;
  if (scales.empty() || scales == Sizes{1} || scales == Sizes{1, 1}) return kFp8Tensor;
  if (scales == Sizes{out} || scales == Sizes{out, 1}) return kFp8Channels;
  if (scales == Sizes{kFp8Blocks.scale_rows(out), kFp8Blocks.scale_cols(in)}) return kFp8Blocks;
  return std::nullopt;
}

}  // namespace

bool Fp8Folder::is_one(const ModelFolder& files) {
  return std::ranges::any_of(files.names(),
                             [&](auto& name) { return files.info(name).type == StoredType::f8_e4m3; });
}

Fp8Folder::Fp8Folder(std::unique_ptr<ModelFolder> files) : CodedFolder(std::move(files)) {
  for (const std::string& name : files_->names())
    if (files_->info(name).type == StoredType::f8_e4m3) weights_[name] = described(name);
}

StoredFp8 Fp8Folder::described(const std::string& weight) const {
  const WeightInfo info = files_->info(weight);
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::input, str(printable(info.file), ": ", printable(weight), what));
  };
  if (info.shape.size() != 2 || info.shape[0] < 1 || info.shape[1] < 1)
    refuse(str(" is F8_E4M3 ", shape_text(info.shape), "; ft reads matrices in FP8"));
  StoredFp8 s;
  s.shape = {info.shape[0], info.shape[1]};
  for (const std::string_view end : kEnds)
    if (files_->has(str(weight, end))) {
      if (!s.scales.empty()) refuse(" has scales twice, _scale and _scale_inv");
      s.scales = str(weight, end);
    }
  if (s.scales.empty()) refuse(" is F8_E4M3 and has no scales: _scale, or _scale_inv in blocks");
  const WeightInfo scales = files_->info(s.scales);
  const auto type = dtype_of(scales.type);
  if (!type || !is_weight_type(*type))
    refuse(str(": its scales are ", name_of(scales.type), "; ft reads F32, F16 and BF16"));
  const auto scheme = scheme_for(info.shape[0], info.shape[1], scales.shape);
  if (!scheme)
    refuse(str(" is ", shape_text(info.shape), " with scales ", shape_text(scales.shape),
               "; ft reads one scale, one for each row, or one for each block of 128 x 128"));
  s.scheme = *scheme;
  if (*type != DType::f32) s.dtype = *type;
  return s;
}

bool Fp8Folder::has(const std::string& name) const {
  if (!files_->has(name)) return false;
  for (const std::string_view end : kEnds)
    if (weights_.contains(renamed(name, end, ""))) return false;
  return !weights_.contains(renamed(name, kInputScale, kWeightName));
}

WeightInfo Fp8Folder::info(const std::string& name) const {
  WeightInfo i = files_->info(name);
  if (const StoredFp8* s = find(name)) i.type = stored_type(s->dtype);
  return i;
}

Fp8Data Fp8Folder::data(const std::string& weight) const {
  const StoredFp8& s = weights_.at(weight);
  Fp8Data q{.scheme = s.scheme, .rows = s.shape[0], .cols = s.shape[1], .codes = {}, .scales = {}};
  q.codes.resize(static_cast<std::size_t>(s.shape.numel()));
  q.scales.resize(static_cast<std::size_t>(s.scheme.scales(q.rows, q.cols)));
  files_->read(weight, {reinterpret_cast<std::byte*>(q.codes.data()), DType::u8, {s.shape.numel()}});
  files_->read(s.scales, {reinterpret_cast<std::byte*>(q.scales.data()), DType::f32, {std::ssize(q.scales)}});
  const auto bad = std::ranges::find_if(q.codes, [](std::uint8_t c) { return is_nan(e4m3{c}); });
  if (bad != q.codes.end()) {
    const std::int64_t at = bad - q.codes.begin();
    throw UserError(Exit::input, str(printable(files_->info(weight).file), ": ", printable(weight),
                                     " has a NaN at [", at / q.cols, ", ", at % q.cols, "]"));
  }
  return q;
}

void Fp8Folder::check_values(const std::string& weight, const Tensor& values, std::int64_t first) const {
  const std::int64_t bad = find_nonfinite(values.data, values.dtype, values.numel()), at = first + bad;
  if (bad < 0) return;
  const std::int64_t cols = weights_.at(weight).shape[1];
  throw UserError(Exit::input, str(printable(files_->info(weight).file), ": ", printable(weight),
                                   " has a number too large for ", name_of(values.dtype), " at [", at / cols,
                                   ", ", at % cols, "]"));
}

}  // namespace ft
