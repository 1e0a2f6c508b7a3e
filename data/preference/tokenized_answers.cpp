// Reads answers as tokens: prompt_ids with chosen_ids and rejected_ids, or with completion_ids and a label or
// a reward. They are used unchanged, and have to contain the end token.
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/files/json_row.h"
#include "data/preference/answers.h"
#include "data/row_formats.h"
#include "data/rows/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

class TokenizedAnswers : public Format {
 public:
  explicit TokenizedAnswers(const FormatContext& context)
      : prompt_(column(context.dataset, "prompt_ids")),
        chosen_(column(context.dataset, "chosen_ids")),
        rejected_(column(context.dataset, "rejected_ids")),
        completion_(column(context.dataset, "completion_ids")),
        reward_(column(context.dataset, "reward")),
        old_logps_(column(context.dataset, "old_logps")),
        vocab_size_(context.vocab_size),
        rows_(context.rows),
        seq2seq_(context.seq2seq),
        value_(context) {}

  Sample read(std::string_view row, const Place& at) const override {
    const Json tree = read_row(row, at);
    const std::vector<std::int32_t> prompt = ids(tree, prompt_, at);
    if (rows_.kind == RowKind::rollout) {
      Sample s = answers_sample(prompt, answer(tree, completion_, at), {}, number(tree, reward_, at), false);
      s.old_logps = old_logps(tree, s.input_ids.size() - prompt.size(), at);
      return s;
    }
    if (rows_.kind == RowKind::labelled)
      return answers_sample(prompt, answer(tree, completion_, at), {}, value_.label(tree, at), seq2seq_);
    return answers_sample(prompt, answer(tree, chosen_, at), answer(tree, rejected_, at),
                          value_.margin(tree, at), seq2seq_);
  }

 private:
  static float finite(const Json& value, const std::string& name, const Place& at) {
    const float x = value.is_number() ? value.get<float>() : NAN;
    if (!std::isfinite(x)) at.fail(str(printable(name), ": must be a number, is ", json_excerpt(value)));
    return x;
  }

  static float number(const Json& row, const std::string& name, const Place& at) {
    const auto found = row.find(name);
    if (found == row.end()) at.fail(str("no \"", printable(name), "\""));
    return finite(*found, name, at);
  }

  std::vector<float> old_logps(const Json& row, std::size_t tokens, const Place& at) const {
    const auto found = row.find(old_logps_);
    if (found == row.end() || found->is_null()) return {};
    const std::string name = printable(old_logps_);
    if (!found->is_array() || found->size() != tokens)
      at.fail(str(name, ": must be ", tokens, " numbers, one for each token of ", printable(completion_),
                  ", is ", json_excerpt(*found)));
    std::vector<float> all;
    for (const Json& logp : *found) all.push_back(finite(logp, str(name, "[", all.size(), "]"), at));
    return all;
  }

  std::vector<std::int32_t> answer(const Json& row, const std::string& name, const Place& at) const {
    std::vector<std::int32_t> list = ids(row, name, at);
    if (list.empty()) at.fail(printable(name) + ": empty");
    return list;
  }

  std::vector<std::int32_t> ids(const Json& row, const std::string& name, const Place& at) const {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) at.fail(str("no \"", printable(name), "\""));
    if (!found->is_array())
      at.fail(str(printable(name), ": must be a list of ids, is ", json_excerpt(*found)));
    std::vector<std::int32_t> list;
    for (const Json& id : *found) {
      const bool known = id.is_number_integer() && id >= 0 && id < vocab_size_;
      if (!known)
        at.fail(str(printable(name), "[", list.size(), "] is ", json_excerpt(id),
                    "; the model's tokens are 0 to ", vocab_size_ - 1));
      list.push_back(id.get<std::int32_t>());
    }
    return list;
  }

  // Names of the columns in the file.
  std::string prompt_, chosen_, rejected_, completion_, reward_, old_logps_;
  std::int64_t vocab_size_;
  WantedRows rows_;
  bool seq2seq_;
  AnswerValue value_;
};

}  // namespace

const RowFormat row_formats::kPreferenceTokenized{
    .name = "preference_tokenized",
    .kind = RowKind::pair,
    .columns = {"prompt_ids", "chosen_ids", "rejected_ids", "margin"},
    .fits = [](const RowNames& row) { return row.has("chosen_ids") && row.has("rejected_ids"); },
    .make = make_as<TokenizedAnswers>};
const RowFormat row_formats::kKtoTokenized{
    .name = "kto_tokenized",
    .kind = RowKind::labelled,
    .columns = {"prompt_ids", "completion_ids", "label"},
    .fits = [](const RowNames& row) { return row.has("completion_ids") && row.has("label"); },
    .make = make_as<TokenizedAnswers>};
const RowFormat row_formats::kRolloutsTokenized{
    .name = "rollouts_tokenized",
    .kind = RowKind::rollout,
    .columns = {"prompt_ids", "completion_ids", "reward", "old_logps"},
    .fits = [](const RowNames& row) { return row.has("completion_ids") && row.has("reward"); },
    .make = make_as<TokenizedAnswers>};

}  // namespace ft
