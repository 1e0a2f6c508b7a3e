// Tokenized rows: input_ids, and optionally labels and attention_mask. They are used unchanged: no BOS or
// EOS is added, and labels choose the trained tokens, whatever train_on_inputs says. For encoder-decoders the
// labels are the target, of any length.
#include <algorithm>
#include <array>

#include "data/files/json_row.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class TokenizedFormat : public Format {
 public:
  explicit TokenizedFormat(const FormatContext& context)
      : ids_(column(context.dataset, "input_ids")),
        labels_(column(context.dataset, "labels")),
        mask_(column(context.dataset, "attention_mask")),
        vocab_size_(context.vocab_size),
        seq2seq_(context.seq2seq) {}

  Sample read(std::string_view row, const Place& at) const override {
    std::array fields{Field{ids_, Field::Kind::integers}, Field{labels_, Field::Kind::integers, seq2seq_},
                      Field{mask_, Field::Kind::integers, false}};
    read_fields(row, at, fields);
    const auto& [ids, labels, mask] = fields;
    if (ids.integers.empty()) at.fail(ids_ + ": empty");
    if (seq2seq_) return read_pair(ids, labels, mask, at);
    for (const Field* f : {&labels, &mask})
      if (f->found && f->integers.size() != ids.integers.size())
        at.fail(str(f->name, ": ", f->integers.size(), " values for ", ids.integers.size(), " ", ids_));
    const auto [begin, end] = unmasked(mask, labels, ids.integers.size(), at);
    Sample sample;
    for (std::size_t i = begin; i < end; ++i) {
      sample.input_ids.push_back(checked(ids, i, at));
      const bool ignored = labels.found && labels.integers[i] == kIgnored;
      sample.labels.push_back(ignored ? kIgnored : checked(labels.found ? labels : ids, i, at));
    }
    return sample;
  }

 private:
  // The target may have another length than the source, which has the mask.
  Sample read_pair(const Field& ids, const Field& labels, const Field& mask, const Place& at) const {
    if (labels.integers.empty()) at.fail(labels_ + ": empty");
    if (mask.found && mask.integers.size() != ids.integers.size())
      at.fail(str(mask_, ": ", mask.integers.size(), " values for ", ids.integers.size(), " ", ids_));
    const auto [begin, end] = unmasked(mask, {}, ids.integers.size(), at);
    Sample sample;
    for (std::size_t i = begin; i < end; ++i) sample.input_ids.push_back(checked(ids, i, at));
    for (std::size_t i = 0; i < labels.integers.size(); ++i)
      sample.labels.push_back(labels.integers[i] == kIgnored ? kIgnored : checked(labels, i, at));
    return sample;
  }

  std::int32_t checked(const Field& field, std::size_t i, const Place& at) const {
    const std::int64_t v = field.integers[i];
    if (v < 0 || v >= vocab_size_)
      at.fail(str(field.name, "[", i, "] is ", v, "; the model's tokens are 0 to ", vocab_size_ - 1,
                  field.name == labels_ ? ", and -100 means not trained" : ""));
    return static_cast<std::int32_t>(v);
  }

  // The tokens that count: padding, which the mask has zeros for, may be at either end.
  std::pair<std::size_t, std::size_t> unmasked(const Field& mask, const Field& labels, std::size_t size,
                                               const Place& at) const {
    if (!mask.found) return {0, size};
    const auto& m = mask.integers;
    for (std::size_t i = 0; i < size; ++i)
      if (m[i] != 0 && m[i] != 1) at.fail(str(mask_, "[", i, "] is ", m[i], "; it must be 0 or 1"));
    const auto begin = static_cast<std::size_t>(std::find(m.begin(), m.end(), 1) - m.begin());
    const auto end = size - static_cast<std::size_t>(std::find(m.rbegin(), m.rend(), 1) - m.rbegin());
    if (begin == size) at.fail(mask_ + ": has only zeros");
    for (std::size_t i = 0; i < size; ++i) {
      if (m[i] == 1) continue;
      if (begin < i && i < end)
        at.fail(str(mask_, "[", i, "] is 0 between ones; ft masks padding at the ends only"));
      if (labels.found && labels.integers[i] != kIgnored)
        at.fail(str(labels_, "[", i, "] is trained, but ", mask_, " is 0 there"));
    }
    return {begin, end};
  }

  std::string ids_, labels_, mask_;  // the fields' names in the file
  std::int64_t vocab_size_;
  bool seq2seq_;
};

}  // namespace

const RowFormat row_formats::kTokenized{.name = "tokenized",
                                        .columns = {"input_ids", "labels", "attention_mask"},
                                        .fits = [](const RowNames& row) { return row.has("input_ids"); },
                                        .make = make_as<TokenizedFormat>};

}  // namespace ft
