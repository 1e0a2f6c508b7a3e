// The ten checks of the reference implementation, in its order: the length's size, limit and fit, UTF-8, JSON
// of the schema, data without holes or overlaps, sizes that do not overflow, whole bytes, shape against
// bytes, and the file's exact length. In addition, a name that occurs twice is refused.
#include "engine/files/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>

#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::size_t kMaxRank = 64;

// Fills the tables while the parser reads the header. begin and end are still relative to the data.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(std::string path, Exit exit) : path_(std::move(path)), exit_(exit) {}
  SafetensorsHeader header;

  void on_null() override { scalar("null"); }
  void on_bool(bool) override { scalar("true or false"); }
  void on_integer(std::int64_t v) override { scalar(str(v)); }
  void on_float(double v) override { scalar(str(v)); }
  void on_unsigned(std::uint64_t v) override {
    if (!in_array_) return scalar(str(v));
    if (v > static_cast<std::uint64_t>(JsonObject::kMaxInt)) fail(str(what_, " has the number ", v));
    if (state_ == State::shape) {
      if (now_.shape.size() == kMaxRank) fail(str("shape has more than ", kMaxRank, " dimensions"));
      now_.shape.push_back(static_cast<std::int64_t>(v));
    } else {
      if (offsets_ == 2) fail("data_offsets has more than two numbers");
      (offsets_++ == 0 ? now_.begin : now_.end) = static_cast<std::int64_t>(v);
    }
  }
  void on_text(std::string& v) override;
  void on_key(std::string& v) override;
  void on_object(bool begins) override;
  void on_array(bool begins) override;

 private:
  enum class State { start, file, metadata, tensor, dtype, shape, offsets, ignored };

  [[noreturn]] void fail(const std::string& problem) const {
    const std::string at = now_.name.empty() ? "" : printable(now_.name) + ": ";
    throw UserError(exit_, str(printable(path_), ": header: ", at, problem));
  }
  // Handles a value that the schema does not allow here. Values of unknown keys are skipped.
  void scalar(const std::string& is) {
    if (state_ == State::ignored && depth_ > 0) return;
    if (state_ == State::ignored) {
      state_ = State::tensor;
    } else if (state_ == State::file && what_ == "__metadata__" && is == "null") {
    } else if (state_ == State::start) {
      fail("must be a JSON object, is " + is);
    } else {
      fail(str(printable(what_), must_be(), ", is ", is));
    }
  }
  const char* must_be() const {
    if (state_ == State::metadata) return " in __metadata__ must be a string";
    if (state_ == State::dtype) return " must be a string";
    if (state_ == State::shape || state_ == State::offsets) return " must be an array of integers from 0";
    return " must be an object";
  }

  std::string path_;
  Exit exit_;
  State state_ = State::start;
  std::string what_;  // the key of the next value
  StoredTensor now_;  // the tensor being read
  int offsets_ = 0;   // numbers of data_offsets seen
  int depth_ = 0;     // nesting within an ignored value
  bool in_array_ = false;
  std::array<bool, 3> seen_{};  // dtype, shape, data_offsets
};

void HeaderReader::on_text(std::string& v) {
  if (state_ == State::metadata) {
    header.metadata.emplace_back(what_, std::move(v));
  } else if (state_ == State::dtype) {
    const auto type = stored_type_named(v);
    if (!type) fail(str("dtype \"", printable(v), "\" is not one of the format's"));
    now_.type = *type;
    state_ = State::tensor;
  } else {
    scalar("\"" + printable(v) + "\"");
  }
}

void HeaderReader::on_key(std::string& v) {
  if (state_ == State::ignored) return;
  what_ = std::move(v);
  if (state_ == State::file || state_ == State::metadata) return;
  static constexpr std::array<std::pair<const char*, State>, 3> kKeys = {
      {{"dtype", State::dtype}, {"shape", State::shape}, {"data_offsets", State::offsets}}};
  state_ = State::ignored;
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if (what_ != kKeys[i].first) continue;
    if (seen_[i]) fail(what_ + " appears twice");
    seen_[i] = true;
    state_ = kKeys[i].second;
  }
}

void HeaderReader::on_object(bool begins) {
  if (state_ == State::ignored) {
    depth_ += begins ? 1 : -1;
    if (!begins && depth_ == 0) state_ = State::tensor;
  } else if (!begins) {
    if (state_ == State::tensor) {
      for (std::size_t i = 0; i < 3; ++i)
        if (!seen_[i]) fail(str("has no ", std::array{"dtype", "shape", "data_offsets"}[i]));
      if (offsets_ != 2) fail("data_offsets must be two numbers");
      header.tensors.push_back(std::move(now_));
      now_ = {};
    }
    state_ = State::file;
  } else if (state_ == State::start) {
    state_ = State::file;
  } else if (state_ == State::file && what_ == "__metadata__") {
    state_ = State::metadata;
  } else if (state_ == State::file) {
    now_.name = what_;
    seen_ = {};
    offsets_ = 0;
    state_ = State::tensor;
  } else {
    fail(str(printable(what_), must_be(), ", is an object"));
  }
}

void HeaderReader::on_array(bool begins) {
  if (state_ == State::ignored) {
    depth_ += begins ? 1 : -1;
    if (!begins && depth_ == 0) state_ = State::tensor;
  } else if (!begins) {
    in_array_ = false;
    state_ = State::tensor;
  } else if ((state_ == State::shape || state_ == State::offsets) && !in_array_) {
    in_array_ = true;
  } else {
    scalar("an array");
  }
}

std::uint64_t little_endian(const unsigned char* bytes) {
  std::uint64_t v = 0;
  for (int i = 7; i >= 0; --i) v = v << 8 | bytes[i];
  return v;
}

// Refuses files of other kinds that users have under such a name. A safetensors file with a header of 640
// bytes begins like a pickle; a real pickle's first eight bytes, read as a length, exceed any header's.
void refuse_other_files(const InputFile& file, std::string_view start, Exit exit) {
  const auto is = [&start](std::string_view magic) { return start.substr(0, magic.size()) == magic; };
  const std::string path = printable(file.path());
  if (file.size() == 0) throw UserError(exit, path + ": is empty; the header is missing");
  if (is("version https://git-lfs"))
    throw UserError(exit, path + ": is a Git LFS pointer, not the weights; fetch them with: git lfs pull");
  const bool pickle = is("\x80\x02") && little_endian(reinterpret_cast<const unsigned char*>(start.data())) >
                                            kMaxSafetensorsHeader;
  if (is("PK\x03\x04") || pickle)
    throw UserError(
        exit,
        path +
            ": is a PyTorch pickle, which can run code and is not read; the safetensors header is missing");
  if (is("GGUF")) throw UserError(exit, path + ": is a GGUF file; the safetensors header is missing");
  if (is("<!DOCTYPE") || is("<html"))
    throw UserError(exit, path + ": is a web page, perhaps from a failed download; the header is missing");
  if (file.size() < 8)
    throw UserError(
        exit, str(path, ": is cut short: ", file.size(), " bytes, less than the header's length takes"));
}

void refuse_twice(std::vector<std::string_view> names, const char* what, const std::string& path, Exit exit) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw UserError(exit, str(printable(path), ": header: ", what, printable(*twice), " appears twice"));
}

void check_names(const SafetensorsHeader& header, const std::string& path, Exit exit) {
  std::vector<std::string_view> names;
  for (const auto& t : header.tensors) names.push_back(t.name);
  refuse_twice(std::move(names), "", path, exit);
  names.clear();
  for (const auto& [key, value] : header.metadata) names.push_back(key);
  refuse_twice(std::move(names), "__metadata__ ", path, exit);
}

// Checks 6 to 10, on tensors in the order of their data. `data`: number of bytes after the header.
void check_layout(std::vector<StoredTensor>& tensors, std::int64_t data, const std::string& path, Exit exit) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t expected = 0;
  for (auto& t : tensors) {
    const auto fail = [&](const std::string& problem) {
      throw UserError(exit, str(printable(path), ": ", printable(t.name), ": ", problem));
    };
    const std::string offsets = str("data_offsets [", t.begin, ", ", t.end, "]");
    if (t.end < t.begin) fail(offsets + " end before they begin");
    if (t.begin != expected)
      fail(str(offsets,
               t.begin > expected ? " leave a hole after byte " : " overlap the tensor that ends at byte ",
               expected));
    std::int64_t bits = 0;
    t.numel = 1;
    for (const auto d : t.shape)
      if (__builtin_mul_overflow(t.numel, d, &t.numel))
        fail(str("shape ", shape_text(t.shape), " has more elements than can be counted"));
    if (__builtin_mul_overflow(t.numel, bits_of(t.type), &bits))
      fail(str("shape ", shape_text(t.shape), " has more bytes than can be counted"));
    if (bits % 8 != 0) fail(str(t.numel, " elements of ", name_of(t.type), " do not fill whole bytes"));
    if (t.end - t.begin != bits / 8)
      fail(str(offsets, " are ", t.end - t.begin, " bytes, shape ", shape_text(t.shape), " of ",
               name_of(t.type), " is ", bits / 8));
    if (t.end > data)
      fail(str(offsets, " lie beyond the end; the file has ", data, " bytes of data: it is cut short"));
    expected = t.end;
  }
  if (expected != data)
    throw UserError(exit, str(printable(path), ": has ", data, " bytes of data, its tensors take ", expected,
                              ": ", data - expected, " bytes too many"));
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file, Exit exit) {
  std::array<unsigned char, 32> start{};
  file.read(0, start.data(), std::min<std::int64_t>(file.size(), start.size()));
  refuse_other_files(file, {reinterpret_cast<const char*>(start.data()), start.size()}, exit);

  const std::string& path = file.path();
  const std::uint64_t length = little_endian(start.data());
  const auto fail = [&](const std::string& problem) {
    throw UserError(exit, str(printable(path), ": header: ", problem));
  };
  if (length > kMaxSafetensorsHeader)
    fail(str("claims ", length, " bytes; at most ", kMaxSafetensorsHeader, " are allowed"));
  const auto bytes = static_cast<std::int64_t>(length);
  if (bytes > file.size() - 8)
    fail(str("claims ", bytes, " bytes, the file has ", file.size() - 8,
             " after its length: it is cut short"));

  std::string text(length, '\0');
  file.read(8, text.data(), bytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) fail("is empty");
  if (text[first] != '{') fail("does not begin with '{'");

  HeaderReader reader(path, exit);
  parse_json(text, {path + ": header"}, reader,
             {.max_bytes = kMaxSafetensorsHeader, .max_depth = 16, .exit = exit});
  text = {};
  check_names(reader.header, path, exit);
  check_layout(reader.header.tensors, file.size() - 8 - bytes, path, exit);
  for (auto& t : reader.header.tensors) t.begin += 8 + bytes, t.end += 8 + bytes;
  return std::move(reader.header);
}

}  // namespace ft
