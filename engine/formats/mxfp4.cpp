#include "engine/formats/mxfp4.h"

#include <algorithm>
#include <cmath>

#include "engine/files/convert.h"
#include "engine/files/parallel.h"
#include "engine/quant/four_bit.h"

namespace ft {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr std::uint8_t kLargeScale = 253, kNanScale = 255;  // of 2^126, and of a NaN
constexpr std::int64_t kBlock = kMxfp4.block, kBytes = kBlock / 2, kMostOnASide = std::int64_t{1} << 24;

// Returns the name without its end; empty if it ends otherwise.
std::string without(const std::string& name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}
std::string with(const std::string& name, std::string_view end) { return name + std::string(end); }

// Moves the even element's code to the high half of each byte.
void swap_halves(const Tensor& codes) {
  auto* at = codes.as<std::uint8_t>();
  for (std::int64_t i = 0; i < codes.numel(); ++i) at[i] = static_cast<std::uint8_t>(at[i] << 4 | at[i] >> 4);
}

}  // namespace

bool Mxfp4Folder::is_one(const ModelFolder& files) {
  return std::ranges::any_of(files.names(), [&](const std::string& name) {
    const std::string stack = without(name, kBlocks);
    return !stack.empty() && files.has(with(stack, kScales));
  });
}

Mxfp4Folder::Mxfp4Folder(std::unique_ptr<ModelFolder> files) : files_(std::move(files)) {
  for (const std::string& name : files_->names()) {
    const std::string stack = without(name, kBlocks);
    if (stack.empty() || !files_->has(with(stack, kScales))) continue;
    const WeightInfo blocks = files_->info(name), scales = files_->info(with(stack, kScales));
    const std::vector<std::int64_t>& s = blocks.shape;
    const bool fits = blocks.type == StoredType::u8 && scales.type == StoredType::u8 && s.size() == 4 &&
                      s[3] == kBytes && std::ranges::equal(scales.shape, std::vector{s[0], s[1], s[2]}) &&
                      std::ranges::all_of(s, [](auto d) { return d >= 1 && d <= kMostOnASide; });
    if (!fits)
      throw UserError(Exit::input,
                      str(printable(blocks.file), ": ", printable(name), " is ", name_of(blocks.type), " ",
                          shape_text(s), ", its scales ", name_of(scales.type), " ", shape_text(scales.shape),
                          "; MXFP4 has U8 [experts, out, in / 32, 16] and U8 [experts, out, in / 32]"));
    if (files_->has(stack))
      throw UserError(Exit::input, str(printable(blocks.file), ": it has ", printable(stack), " twice, as ",
                                       printable(name), " too"));
    stacks_[stack] = {s[0], s[2] * kBlock, s[1]};
  }
}

const Mxfp4Folder::Stack* Mxfp4Folder::stack_of_part(const std::string& name) const {
  for (const std::string_view end : {kBlocks, kScales})
    if (const auto at = stacks_.find(without(name, end)); at != stacks_.end()) return &at->second;
  return nullptr;
}

std::vector<std::string> Mxfp4Folder::names() const {
  std::vector<std::string> out;
  for (std::string& name : files_->names())
    if (!stack_of_part(name)) out.push_back(std::move(name));
  for (const auto& [name, stack] : stacks_) out.push_back(name);
  std::ranges::sort(out);
  return out;
}

bool Mxfp4Folder::has(const std::string& name) const { return stacks_.contains(name) || files_->has(name); }

WeightInfo Mxfp4Folder::info(const std::string& name) const {
  const auto at = stacks_.find(name);
  if (at == stacks_.end()) return files_->info(name);
  const Stack& s = at->second;
  return {files_->info(with(name, kBlocks)).file, StoredType::bf16, {s.experts, s.in, s.out}};
}

StoredBytes Mxfp4Folder::find_stored(const std::string& name, DType type, std::int64_t elements) const {
  return stack_of_part(name) ? StoredBytes{} : files_->find_stored(name, type, elements);
}

std::vector<std::uint8_t> Mxfp4Folder::bytes_of(const std::string& part, std::int64_t first,
                                                std::int64_t count) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  read(part, {reinterpret_cast<std::byte*>(bytes.data()), DType::u8, {count}}, first);
  return bytes;
}

void Mxfp4Folder::read(const std::string& name, const Tensor& to, std::int64_t first) const {
  if (const auto at = stacks_.find(name); at != stacks_.end()) return read_stack(name, at->second, to, first);
  files_->read(name, to, first);
  if (!stack_of_part(name)) return;
  if (name.ends_with(kBlocks)) return swap_halves(to);
  const auto* scales = to.as<std::uint8_t>();
  for (std::int64_t i = 0; i < to.numel(); ++i)
    if (scales[i] >= kLargeScale) check_scale(name, first + i, scales[i]);
}

// The largest value, 6, exceeds bf16 with a scale of 2^126 or more; smaller values may be finite.
void Mxfp4Folder::check_scale(const std::string& name, std::int64_t at, std::uint8_t scale) const {
  const auto refuse = [&](const auto&... what) {
    throw UserError(Exit::input, str(printable(files_->info(name).file), ": ", printable(name), what...));
  };
  if (scale == kNanScale) refuse(" has a NaN at element ", at);
  constexpr FourBitValues kValues = four_bit_values(FourBitBook::mxfp4);
  const std::string blocks = with(without(name, kScales), kBlocks);
  const std::vector<std::uint8_t> codes = bytes_of(blocks, at * kBytes, kBytes);
  for (std::int64_t i = 0; i < kBlock; ++i)
    if (const float x = kValues.of[four_bit_code(codes.data(), i)]; std::isinf(x * power_of_two(scale)))
      refuse(" has at element ", at, " the scale ", int(scale), ", with which a value of ", x,
             " in the block is Inf");
}

// Reads the codes expert by expert. Element (i, o) of an expert's matrix has code o in + i.
void Mxfp4Folder::read_stack(const std::string& name, const Stack& s, const Tensor& to,
                             std::int64_t first) const {
  constexpr std::int64_t kRun = 64;  // rows of the matrix that a thread decodes at once
  require(to.dense(), "a stack in MXFP4 is read into dense memory");
  constexpr FourBitValues kValues = four_bit_values(FourBitBook::mxfp4);
  const std::int64_t each = s.in * s.out, end = first + to.numel();
  for (std::int64_t e = first / each; e * each < end; ++e) {
    if (held_.name != name || held_.expert != e)
      held_ = {name, e, bytes_of(with(name, kBlocks), e * each / 2, each / 2),
               bytes_of(with(name, kScales), e * each / kBlock, each / kBlock)};
    const auto &codes = held_.codes, &scales = held_.scales;
    const std::int64_t begin = std::max(first, e * each), stop = std::min(end, (e + 1) * each);
    const std::int64_t from = (begin - e * each) / s.out, rows = (stop - e * each - 1) / s.out + 1 - from;
    in_parallel((rows + kRun - 1) / kRun, [&](std::int64_t piece) {
      std::vector<float> values(static_cast<std::size_t>(s.out));
      for (std::int64_t i = from + piece * kRun; i < std::min(from + rows, from + (piece + 1) * kRun); ++i) {
        for (std::int64_t o = 0; o < s.out; ++o) {
          const std::int64_t at = o * s.in + i;
          values[static_cast<std::size_t>(o)] = kValues.of[four_bit_code(codes.data(), at)] *
                                                power_of_two(scales[static_cast<std::size_t>(at / kBlock)]);
        }
        const std::int64_t row = e * each + i * s.out;  // number of its first element
        const std::int64_t a = std::max(begin, row), b = std::min(stop, row + s.out);
        std::byte* const out = to.data + (a - first) * size_of(to.dtype);
        convert(out, to.dtype, values.data() + (a - row), DType::f32, b - a);
        if (const std::int64_t bad = find_nonfinite(out, to.dtype, b - a); bad >= 0)
          throw UserError(Exit::input,
                          str(printable(info(name).file), ": ", printable(name), " has a value beyond ",
                              name_of(to.dtype), " at element ", a + bad));
      }
    });
  }
}

}  // namespace ft
