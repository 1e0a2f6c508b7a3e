#include "data/chat/chat_sample.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "data/tokenizers/token_spans.h"

namespace ft {
namespace {

using Kind = ChatPart::Kind;

// Returns which parts are trained, from the wanted turns and train_on_eos.
std::vector<bool> trained_parts(std::span<const ChatPart> parts, const WantedTurns& wanted, TrainOnEos ends) {
  std::int64_t last = -1;
  for (std::size_t i = 0; i < wanted.trained.size(); ++i)
    if (wanted.trained[i]) last = static_cast<std::int64_t>(i);
  std::vector<bool> out;
  for (const ChatPart& part : parts) {
    const auto in = [&](const std::vector<bool>& messages) {
      return part.message >= 0 && messages[static_cast<std::size_t>(part.message)];
    };
    const bool own = in(wanted.trained);
    const bool end = ends == TrainOnEos::all || (ends == TrainOnEos::turn && own) ||
                     (ends == TrainOnEos::last && part.message == last);
    const bool kept = wanted.inputs || part.kind == Kind::generated || (part.kind == Kind::content && own);
    out.push_back((kept && !in(wanted.kept_out)) || (part.kind == Kind::end && end));
  }
  return out;
}

// Counts the messages whose content is trained, and those whose end is trained too.
TrainedTurns count_turns(std::span<const ChatPart> parts, const std::vector<bool>& keep) {
  TrainedTurns turns;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool turn = parts[i].kind == Kind::content || parts[i].kind == Kind::generated;
    if (!keep[i] || !turn) continue;
    ++turns.turns;
    turns.closed +=
        parts[i].closes || (i + 1 < parts.size() && keep[i + 1] && parts[i + 1].kind == Kind::end);
  }
  return turns;
}

// Finds the token positions at which a prefix of the text ends.
class Borders {
 public:
  Borders(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, std::string_view text)
      : tokenizer_(tokenizer), ids_(ids), text_(text), spans_(token_spans(tokenizer, ids, text)) {}

  struct Border {
    std::size_t before = 0;   // tokens that lie completely in the prefix
    std::size_t reached = 0;  // tokens that begin in it: one more if a token crosses the border
  };
  Border of(std::size_t size) const {
    if (!spans_) return by_beginning(std::string(text_.substr(0, size)));
    const auto count = [&](auto&& within) {
      return static_cast<std::size_t>(std::partition_point(spans_->begin(), spans_->end(), within) -
                                      spans_->begin());
    };
    return {count([&](const auto& s) { return s.second <= size; }),
            count([&](const auto& s) { return s.first < size; })};
  }

 private:
  // Compares the prefix's tokens with the text's: the common ones lie in the prefix. A token that crosses the
  // border is not among them.
  Border by_beginning(const std::string& beginning) const {
    const Tokenizer::Ids own = tokenizer_.encode(beginning);
    const auto common = std::mismatch(own.begin(), own.end(), ids_.begin(), ids_.end());
    const auto before = static_cast<std::size_t>(common.first - own.begin());
    return {before, before + (common.first == own.end() ? 0 : 1)};
  }

  const Tokenizer& tokenizer_;
  std::span<const std::int32_t> ids_;
  std::string_view text_;
  std::optional<std::vector<std::pair<std::size_t, std::size_t>>> spans_;
};

}  // namespace

std::vector<LeftOut> empty_thoughts(std::string_view text) {
  static constexpr std::string_view kBegins = "<think>", kEnds = "</think>", kWhite = " \t\r\n";
  const auto behind = [&](std::size_t at) {
    return std::min(text.find_first_not_of(kWhite, at), text.size());
  };
  std::vector<LeftOut> found;
  for (auto begin = text.find(kBegins); begin != text.npos; begin = text.find(kBegins, begin + 1)) {
    const std::size_t close = behind(begin + kBegins.size());
    if (text.substr(close).starts_with(kEnds)) found.push_back({begin, behind(close + kEnds.size())});
  }
  return found;
}

void leave_out(Sample& sample, std::string_view text, std::span<const LeftOut> stretches,
               const Tokenizer& tokenizer) {
  if (stretches.empty()) return;
  const Borders borders(tokenizer, sample.input_ids, text);
  for (const LeftOut& s : stretches) {
    const std::size_t end = std::min(borders.of(s.end).before, sample.labels.size());
    for (std::size_t t = borders.of(s.begin).reached; t < end; ++t) sample.labels[t] = kIgnored;
  }
}

Sample make_chat_sample(std::span<const ChatPart> parts, const WantedTurns& wanted, const DataConfig& config,
                        const TextSampleBuilder& builder, const Place& at, std::vector<LeftOut> left_out) {
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  Sample sample;
  sample.written = Written::chat;
  builder.add_text(sample, text, true, at);
  const std::vector<bool> keep = trained_parts(parts, wanted, config.train_on_eos);
  sample.turns = count_turns(parts, keep);
  const Borders borders(builder.tokenizer(), sample.input_ids, text);
  std::vector<std::int32_t> labels(sample.labels.size(), kIgnored);
  for (std::size_t i = 0, begin = 0, end = 0; i < parts.size(); begin = end) {
    const std::size_t first = i;  // first of a run of parts that are all trained, or all not
    for (; i < parts.size() && keep[i] == keep[first]; ++i) end += parts[i].text.size();
    if (!keep[first]) continue;
    const std::size_t last = std::min(borders.of(end).reached, labels.size());
    for (std::size_t t = borders.of(begin).before; t < last; ++t) labels[t] = sample.input_ids[t];
  }
  sample.labels = std::move(labels);
  if (config.ignore_empty_think) std::ranges::copy(empty_thoughts(text), std::back_inserter(left_out));
  leave_out(sample, text, left_out, builder.tokenizer());
  return sample;
}

}  // namespace ft
