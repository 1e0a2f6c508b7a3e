// The built-in rewards (reward.h).
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/rollouts/reward.h"
#include "data/files/utf8.h"
#include "data/tokenizers/regex.h"

namespace ft {
namespace {

std::string_view stripped(std::string_view text) { return strip_left(strip_right(text)); }

// Returns the row's `answer` as text. A number is written as in JSON.
std::string right_answer(const Json& row) {
  const Json& answer = row.at("answer");
  return answer.is_string() ? answer.get<std::string>() : json_text(answer, -1);
}

double score(RewardCheck check, const RewardedAnswer& a, Regex::Finder* pattern) {
  Regex::Match match;
  if (check == RewardCheck::regex) return pattern->find(a.completion, 0, match) ? 1 : 0;
  const std::string right = right_answer(a.row);
  if (check == RewardCheck::exact_match) return stripped(a.completion) == stripped(right) ? 1 : 0;
  return last_number(a.completion) == last_number(right) ? 1 : 0;
}

// Returns the penalty for long answers: Yu et al., "DAPO", 2025, equation 13.
double soft_overlong(const ObjectiveConfig& c, std::size_t tokens) {
  const auto longest = static_cast<double>(c.answer_length()),
             cache = static_cast<double>(c.soft_punish_cache.value_or(1)),
             length = static_cast<double>(tokens);
  if (length <= longest - cache) return 0;
  return length <= longest ? (longest - cache - length) / cache : -1;
}

class Check final : public Reward {
 public:
  Check(const ObjectiveConfig& config, RewardCheck check) : config_(config), check_(check) {
    if (check != RewardCheck::regex) return;
    try {
      pattern_.emplace(Regex::oniguruma(*config.reward_regex, "objective.reward_regex"));
    } catch (const UserError& e) {
      throw UserError(Exit::config, e.what());
    }
  }
  std::string name() const override { return name_of(check_); }
  std::vector<double> rewards(std::span<const RewardedAnswer> answers) override {
    std::optional<Regex::Finder> finder;
    if (pattern_) finder.emplace(*pattern_);
    std::vector<double> all;
    for (const RewardedAnswer& a : answers)
      all.push_back(check_ == RewardCheck::length ? soft_overlong(config_, a.ids.size())
                                                  : score(check_, a, finder ? &*finder : nullptr));
    return all;
  }

 private:
  const ObjectiveConfig& config_;
  RewardCheck check_;
  std::optional<Regex> pattern_;
};

void require_answers_of(RewardCheck check, const Dataset& prompts) {
  for (std::int64_t i = 0; i < prompts.size(); ++i) {
    const Json row = prompts.prompt_row(i);
    const char* wrong = nullptr;
    if (!row.contains("answer") || row["answer"].is_null())
      wrong = "no \"answer\"";
    else if (!row["answer"].is_string() && !row["answer"].is_number())
      wrong = "answer: must be a text or a number";
    else if (check == RewardCheck::number && std::isnan(last_number(right_answer(row))))
      wrong = "answer: there is no number in it";
    if (wrong)
      throw UserError(Exit::input, str(printable(prompts.source(i)), ": ", wrong,
                                       ", which objective.reward_funcs ", name_of(check), " compares with"));
  }
}

}  // namespace

double last_number(const std::string& text) {
  const Regex number(R"(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)");
  double last = NAN;
  for (const Regex::Match& m : all_matches(text, number)) {
    std::string digits = text.substr(m.begin, m.end - m.begin);
    std::erase(digits, ',');
    last = std::strtod(digits.c_str(), nullptr);
  }
  return last;
}

std::vector<std::unique_ptr<Reward>> make_checks(const ObjectiveConfig& c) {
  std::vector<std::unique_ptr<Reward>> all;
  for (const RewardCheck check : c.reward_funcs) all.push_back(std::make_unique<Check>(c, check));
  return all;
}

void require_answers(const ObjectiveConfig& c, const Dataset& prompts) {
  for (const RewardCheck check : c.reward_funcs)
    if (check == RewardCheck::exact_match || check == RewardCheck::number) require_answers_of(check, prompts);
}

}  // namespace ft
