#include "data/chat_sample.h"

#include <algorithm>

namespace ft {
namespace {

using Kind = ChatPart::Kind;

// Which parts are trained, by train_on_inputs, roles (as `trained` says) and train_on_eos.
std::vector<bool> trained_parts(std::span<const ChatPart> parts, const std::vector<bool>& trained,
                                const DataConfig& config) {
  std::int64_t last = -1;
  for (std::size_t i = 0; i < trained.size(); ++i)
    if (trained[i]) last = static_cast<std::int64_t>(i);
  const TrainOnEos ends = config.train_on_eos;
  std::vector<bool> out;
  for (const ChatPart& part : parts) {
    const bool own = part.message >= 0 && trained[static_cast<std::size_t>(part.message)];
    const bool end = ends == TrainOnEos::all || (ends == TrainOnEos::turn && own) ||
                     (ends == TrainOnEos::last && part.message == last);
    out.push_back(config.train_on_inputs || (part.kind == Kind::content && own) ||
                  (part.kind == Kind::end && end));
  }
  return out;
}

// Places in the tokens of a text where a beginning of the text ends.
class Borders {
 public:
  Borders(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) : tokenizer_(tokenizer), ids_(ids) {}

  struct Border {
    std::size_t before = 0;   // tokens that lie completely in the beginning
    std::size_t reached = 0;  // tokens that begin in it: one more where a token reaches over the border
  };
  // The tokens that the beginning shares with the whole text lie in the beginning. A token that crosses the
  // boundary is not among them.
  Border of(const std::string& beginning) const {
    const Tokenizer::Ids own = tokenizer_.encode(beginning);
    const auto common = std::mismatch(own.begin(), own.end(), ids_.begin(), ids_.end());
    const auto before = static_cast<std::size_t>(common.first - own.begin());
    return {before, before + (common.first == own.end() ? 0 : 1)};
  }

 private:
  const Tokenizer& tokenizer_;
  std::span<const std::int32_t> ids_;
};

}  // namespace

Sample make_chat_sample(std::span<const ChatPart> parts, const std::vector<bool>& trained,
                        const DataConfig& config, const TextSampleBuilder& builder, const Place& at) {
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  Sample sample;
  builder.add_text(sample, text, true, at);
  const std::vector<bool> keep = trained_parts(parts, trained, config);
  const Borders borders(builder.tokenizer(), sample.input_ids);
  std::vector<std::int32_t> labels(sample.labels.size(), kIgnored);
  std::string beginning;
  for (std::size_t i = 0; i < parts.size();) {
    const std::size_t first = i;
    std::string stretch;  // of parts that are all trained, or all not
    for (; i < parts.size() && keep[i] == keep[first]; ++i) stretch += parts[i].text;
    if (keep[first]) {
      const std::size_t begin = borders.of(beginning).before;
      const std::size_t end = std::min(borders.of(beginning + stretch).reached, labels.size());
      for (std::size_t t = begin; t < end; ++t) labels[t] = sample.input_ids[t];
    }
    beginning += stretch;
  }
  sample.labels = std::move(labels);
  return sample;
}

}  // namespace ft
