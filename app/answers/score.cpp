#include "app/answers/score.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/files/model_files.h"
#include "app/run/run.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "data/files/json_row.h"
#include "data/preference/batch.h"
#include "data/preference/scored_rows.h"
#include "engine/files/file.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& o : overrides) {
    const auto begins = [&](const char* known) { return o.starts_with(known); };
    if (!begins("data.chat_template=") && !begins("data.chat_template_kwargs=") && !begins("quantization.") &&
        !begins("device=") && !begins("model.tokenizer_name_or_path=") &&
        !begins("training.per_device_eval_batch_size="))
      throw UserError(Exit::config, str(printable(o),
                                        ": only data.chat_template, data.chat_template_kwargs, "
                                        "quantization, device, model.tokenizer_name_or_path and "
                                        "training.per_device_eval_batch_size are allowed here"));
  }
}

RunConfig config_of(const ScoreArgs& args) {
  check_overrides(args.overrides);
  Json j;
  j["model"]["model_name_or_path"] = std::filesystem::absolute(args.model).string();
  j["data"]["datasets"] = Json::array({{{"path", "none"}}});  // no dataset is read
  j["training"]["bf16"] = args.dtype == "bfloat16";
  j["training"]["fp16"] = args.dtype == "float16";
  j["objective"]["type"] = "reward";
  RunConfig c = parse_config(j.dump(), "ft score", "", args.overrides);
  c.model.model_name_or_path = args.model;  // as the user wrote it, for messages
  if (!args.adapter.empty()) {
    c.lora.adapter_name_or_path = args.adapter;
    // The adapter was trained with its own tokenizer, which may know more tokens.
    if (!c.model.tokenizer_name_or_path && holds_tokenizer(args.adapter))
      c.model.tokenizer_name_or_path = args.adapter;
  }
  return c;
}

struct Scored {
  struct Text {
    std::size_t row;
    ScoredText text;
  };
  std::vector<Json> rows;
  std::vector<Text> texts;
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
  const ScoredRows read(context);
  Scored s;
  Place at{&file};
  const auto rows = open_rows({file, file});
  for (Row row; rows->next(row);) {
    at.line = row.line;
    s.rows.push_back(read_row(row.text, at, NonFinite::null));
    for (ScoredText& text : read.read(s.rows.back(), at))
      s.texts.push_back({s.rows.size() - 1, std::move(text)});
  }
  if (s.rows.empty()) throw UserError(Exit::input, printable(file) + ": has no rows");
  return s;
}

std::vector<Batch> batches_of(const Scored& s, std::int64_t size, std::int32_t padding) {
  std::vector<Batch> all;
  for (std::size_t i = 0; i < s.texts.size(); ++i) {
    if (i % static_cast<std::size_t>(size) == 0) all.emplace_back();
    add_scored(all.back(), s.texts[i].text.ids, padding);
  }
  return all;
}

// Keeps the scores of the sequences in a batch.
class Scoring final : public Objective, private RowLoss {
 public:
  std::int64_t count(const BatchShape& s) const override { return s.compared; }
  void forward(const Pass& p, const Batch& b, Tensor) override {
    Ctx c = p.context;
    c.train = false;
    RowLoss* const kept = this;
    p.policy.model->forward(c, *p.policy.store, b, kept);
  }
  void forward_backward(const Pass&, const Batch&, Tensor, float) override {
    throw InternalError("ft score trains nothing");
  }
  std::vector<float> scores;  // of the last batch

 private:
  void weigh(Ctx& c, const RowValues& v, Tensor) override {
    scores.resize(static_cast<std::size_t>(v.values.numel()));
    if (!scores.empty()) c.ops.download(scores.data(), v.values);
  }
};

// Plans the batches' passes, and takes their memory.
void start(Run& run, Objective& objective, const std::vector<Batch>& batches) {
  run.request().objective = &objective;
  for (const Batch& b : batches) run.request().eval.push_back(shape_of(b));
  run.plan(
      "a smaller training.per_device_eval_batch_size, --dtype bfloat16, "
      "quantization.load_in_4bit=true");
  run.start();
}

}  // namespace

Exit score(const ScoreArgs& args) {
  const RunConfig config = config_of(args);
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, str(printable(args.output), " already exists; --overwrite replaces it"));
  { const AtomicFile writable(args.output); }  // fails now, not after the work
  Run run(config, {.work = Work::compute}, Ranks{});
  run.build_model();
  const BuiltModel& built = run.built;
  Scored scored = read_rows(args.input, config, built.made.info.vocab_size);
  const auto batches = batches_of(scored, config.training.per_device_eval_batch_size, *built.padding);
  Scoring scoring;
  start(run, scoring, batches);
  Screen screen(Screen::standard_error());
  show_warnings(screen, built);
  {
    Working working(screen, "scoring", "batches");
    auto next = scored.texts.begin();
    for (std::size_t i = 0; i < batches.size(); ++i) {
      scoring.forward(run.pass(), batches[i], {});
      for (const float score : scoring.scores) {
        scored.rows[next->row][next->text.name] = score;
        ++next;
      }
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
