#include "app/answers/score.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/answers/text_model.h"
#include "app/config/head_settings.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "data/classify/inputs.h"
#include "data/files/json_row.h"
#include "data/preference/scored_rows.h"
#include "engine/files/file.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& o : overrides) {
    const auto begins = [&](const char* known) { return o.starts_with(known); };
    if (!begins("data.chat_template=") && !begins("data.chat_template_kwargs=") && !begins("quantization.") &&
        !begins("device=") && !begins("model.tokenizer_name_or_path=") && !begins("objective.") &&
        !begins("training.per_device_eval_batch_size="))
      throw UserError(Exit::config, str(printable(o),
                                        ": only data.chat_template, data.chat_template_kwargs, "
                                        "quantization, device, objective, model.tokenizer_name_or_path and "
                                        "training.per_device_eval_batch_size are allowed here"));
  }
}

struct Scored {
  struct Text {
    std::size_t row;
    ScoredText text;
    std::vector<std::size_t> words{};  // index of each word's first token, if words have classes
  };
  std::vector<Json> rows;
  std::vector<Text> texts;
};

// Reads a row's texts: answers for a reward model, else one text.
class RowTexts {
 public:
  RowTexts(const FormatContext& context, const ObjectiveConfig& o)
      : answers_(context),
        texts_(context),
        reward_(o.type == &objectives::kReward),
        of_tokens_(o.task_type == ClassifyTask::token) {}
  void read(Scored& s, const Place& at) const {
    const Json& row = s.rows.back();
    const std::size_t number = s.rows.size() - 1;
    if (reward_) {
      for (ScoredText& text : answers_.read(row, at)) s.texts.push_back({number, std::move(text)});
      return;
    }
    if (!row.is_object()) at.fail("a row is a JSON object {...}");
    if (!of_tokens_ || !texts_.has_words(row)) return s.texts.push_back({number, {"", texts_.read(row, at)}});
    TextInputs::Words words = texts_.words(row, at);
    s.texts.push_back({number, {"", std::move(words.ids)}, std::move(words.first)});
  }

 private:
  ScoredRows answers_;
  TextInputs texts_;
  bool reward_, of_tokens_;
};

Scored read_rows(const std::string& file, const RunConfig& config, std::int64_t vocab_size) {
  std::unique_ptr<Tokenizer> tokenizer;  // made when a row needs it
  const FormatContext context{.data = config.data,
                              .dataset = config.data.datasets[0],
                              .setting = "--input",
                              .vocab_size = vocab_size,
                              .tokenizer = [&]() -> const Tokenizer& {
                                if (!tokenizer) tokenizer = make_tokenizer(config.model.tokenizer());
                                return *tokenizer;
                              },
                              .tokenizer_path = config.model.tokenizer()};
  const RowTexts read(context, config.objective);
  Scored s;
  Place at{&file};
  const auto rows = open_rows({file, file});
  for (Row row; rows->next(row);) {
    at.line = row.line;
    s.rows.push_back(read_row(row.text, at, NonFinite::null));
    read.read(s, at);
  }
  if (s.rows.empty()) throw UserError(Exit::input, printable(file) + ": has no rows");
  return s;
}

std::vector<Batch> batches_of(const Scored& s, const TextModel& model) {
  const std::int64_t size = model.config().training.per_device_eval_batch_size;
  std::vector<Batch> all;
  for (std::size_t i = 0; i < s.texts.size(); ++i) {
    if (i % static_cast<std::size_t>(size) == 0) all.emplace_back();
    model.add(all.back(), s.texts[i].text.ids);
  }
  return all;
}

std::vector<double> softmax(std::span<const float> z) {
  const double most = *std::max_element(z.begin(), z.end());
  std::vector<double> p;
  double sum = 0;
  for (const float x : z) sum += p.emplace_back(std::exp(static_cast<double>(x) - most));
  for (double& x : p) x /= sum;
  return p;
}

std::size_t best_of(std::span<const float> z) {
  return static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin());
}

// Adds a text's classes to its row: the prediction, and each label's score.
void put_classes(Json& row, const Classes& classes, std::span<const float> z) {
  std::vector<double> scores(z.begin(), z.end());
  if (classes.problem == ProblemType::single) {
    scores = softmax(z);
    row["prediction"] = classes.names[best_of(z)];
  } else if (classes.problem == ProblemType::multi) {
    row["prediction"] = Json::array();
    for (std::size_t k = 0; k < scores.size(); ++k) {
      scores[k] = 1 / (1 + std::exp(-scores[k]));
      if (z[k] >= 0) row["prediction"].push_back(classes.names[k]);
    }
  }
  if (scores.size() == 1) {
    row.erase("prediction");
    row["score"] = scores[0];
    return;
  }
  row["scores"] = Json::object();
  for (std::size_t k = 0; k < scores.size(); ++k) row["scores"][classes.names[k]] = scores[k];
}

// Adds the class of each token, or of each word.
void put_token_classes(Json& row, const Classes& classes, const std::vector<std::size_t>& words,
                       std::span<const float> z) {
  const auto K = static_cast<std::size_t>(classes.size());
  Json& all = row["predictions"] = Json::array();
  const std::size_t n = words.empty() ? z.size() / K : words.size();
  for (std::size_t i = 0; i < n; ++i)
    all.push_back(classes.names[best_of(z.subspan((words.empty() ? i : words[i]) * K, K))]);
}

// Adds the results of a batch to the rows of its texts, from `first` on.
void put(Scored& s, std::size_t first, const Batch& b, TextModel& model) {
  const ObjectiveConfig& o = model.config().objective;
  const auto row = [&](std::size_t i) -> Json& { return s.rows[s.texts[first + i].row]; };
  if (o.type == &objectives::kEmbed) {
    const auto all = model.embeddings(b);
    for (std::size_t i = 0; i < all.size(); ++i) row(i)["embedding"] = all[i];
    return;
  }
  const std::vector<float> values = model.values(b);
  const std::size_t each = values.size() / b.targets.size();
  const Classes classes = classes_of(o);
  for (std::size_t i = 0; i < static_cast<std::size_t>(b.compared.rows()); ++i) {
    const auto begin = static_cast<std::size_t>(b.compared.first_target[i]),
               end = static_cast<std::size_t>(b.compared.first_target[i + 1]);
    const auto z = std::span(values).subspan(begin * each, (end - begin) * each);
    if (o.type == &objectives::kReward)
      row(i)[s.texts[first + i].text.name] = z[0];
    else if (classes.task == ClassifyTask::token)
      put_token_classes(row(i), classes, s.texts[first + i].words, z);
    else
      put_classes(row(i), classes, z);
  }
}

}  // namespace

Exit score(const ScoreArgs& args) {
  check_overrides(args.overrides);
  const RunConfig config =
      text_model_config(args.model, args.adapter, args.dtype, args.overrides, "ft score");
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, str(printable(args.output), " already exists; --overwrite replaces it"));
  { const AtomicFile writable(args.output); }  // fails now, not after the work
  TextModel model(config);
  Scored scored = read_rows(args.input, config, model.built().made.info.vocab_size);
  const auto batches = batches_of(scored, model);
  std::vector<BatchShape> shapes;
  for (const Batch& b : batches) shapes.push_back(shape_of(b));
  model.start(shapes);
  Screen screen(Screen::standard_error());
  show_warnings(screen, model.built());
  if (const std::string why = explain_objective(args.model, args.adapter); !why.empty()) screen.line(why);
  {
    Working working(screen, "scoring", "batches");
    std::size_t first = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      put(scored, first, batches[i], model);
      first += static_cast<std::size_t>(batches[i].compared.sequences());
      working(static_cast<std::int64_t>(i + 1), std::ssize(batches));
    }
  }
  AtomicFile out(args.output);
  for (const Json& row : scored.rows) out.write(json_text(row, -1) + "\n");
  out.commit();
  screen.line(str("scored ", show::plural(std::ssize(scored.rows), "row"), " -> ", show::path(args.output)));
  return Exit::done;
}

}  // namespace ft
