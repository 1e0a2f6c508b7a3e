#include "app/assembly/built_data.h"

#include "app/assembly/family.h"
#include "app/assembly/reward_model.h"
#include "app/assembly/vocabulary.h"
#include "app/hub/access.h"
#include "data/batches/sample_reader.h"
#include "data/efficiency/sampler.h"
#include "data/efficiency/schedule.h"
#include "data/tokenizers/new_tokens.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "models/registry.h"
#include "models/text_config.h"

namespace ft {

std::int64_t vocab_size_of(const RunConfig& config) {
  const std::int64_t own =
      text_settings(JsonObject::read(join_path(config.model.folder(), "config.json"))).positive("vocab_size");
  return vocabulary_size(config, own);
}

namespace {

// Returns a function that gives the order of samples of an epoch; empty: no curriculum chooses samples.
std::function<std::vector<std::int64_t>(std::int64_t)> chosen_samples(const RunConfig& config,
                                                                      LoadedData& loaded,
                                                                      std::int64_t per_step,
                                                                      std::uint64_t seed) {
  const DataEfficiencyConfig& c = config.data_efficiency;
  const CurriculumMetrics& m = c.data_sampling.curriculum_learning.curriculum_metrics;
  if (!has_curriculum(c) || !chooses_samples(m)) return {};
  auto all = difficulties(m, loaded.train);
  for (const Difficulty& d : all)
    if (d.never() > 0)
      loaded.notes.push_back(str("data_efficiency: ", d.never(), " of ", d.samples(),
                                 " samples are never trained on: ", d.range(),
                                 "; raise max_difficulty, or set difficulty_type=percentile"));
  const auto sampler = std::make_shared<CurriculumSampler>(
      std::move(all), per_step, c.seed ? static_cast<std::uint64_t>(*c.seed) : seed);
  return [sampler](std::int64_t epoch) { return sampler->order(epoch); };
}

RowKind row_kind(const ObjectiveConfig& c) {
  switch (c.type->rows) {
    case ObjectiveRows::pairs:
      return RowKind::pair;
    case ObjectiveRows::labelled:
      return RowKind::labelled;
    case ObjectiveRows::rollouts:
      return c.generates() ? RowKind::prompt : RowKind::rollout;
    case ObjectiveRows::classified:
      return RowKind::classified;
    case ObjectiveRows::texts:
      return RowKind::texts;
    default:
      return RowKind::example;
  }
}

// Describes the rows that the objective needs.
WantedRows wanted_rows(const ObjectiveConfig& c) {
  WantedLabels labels;
  if (c.type->rows == ObjectiveRows::classified) {
    const Classes classes = classes_of(c);
    labels = {.names = classes.names,
              .kind = classes.problem == ProblemType::single  ? LabelKind::one_class
                      : classes.problem == ProblemType::multi ? LabelKind::several
                                                              : LabelKind::numbers,
              .of_tokens = classes.task == ClassifyTask::token};
  }
  return {.kind = row_kind(c),
          .objective = name_of(c.type),
          .cut = !c.type->scores,
          .answer = c.generates() ? c.answer_length() : 0,
          .labels = std::move(labels)};
}

std::unique_ptr<Rollouts> make_rollouts(const ObjectiveConfig& c, const Batcher& from,
                                        std::int64_t per_step) {
  const ObjectiveNeeds needs = c.needs();
  require_groups(from.data(), needs.group);
  return std::make_unique<Rollouts>(from, RolloutOptions{.group = needs.group,
                                                         .rows = from.options().batch_size,
                                                         .batches = per_step,
                                                         .uses = c.num_iterations.value_or(1),
                                                         .scale = needs.scale});
}

std::unique_ptr<GeneratedAnswers> make_generated(const RunConfig& config, const Batcher& from, int ranks) {
  const ObjectiveConfig& c = config.objective;
  const std::int64_t accumulated = config.training.gradient_accumulation_steps;
  return std::make_unique<GeneratedAnswers>(
      from.data(), GeneratedOptions{.group = c.needs().group,
                                    .rows = from.options().batch_size,
                                    .batches = c.steps_per_generation.value_or(accumulated) * ranks,
                                    .step = accumulated * ranks,
                                    .uses = c.num_iterations.value_or(1),
                                    .longest = c.answer_length(),
                                    .shuffle = from.options().shuffle,
                                    .seed = from.options().seed});
}

// Throws UserError (input) for a sample that is trained from its first token on.
void require_prompts(const ObjectiveConfig& c, const Dataset& data) {
  const char* setting = c.needs().own > 0 ? "objective.lmbda" : "objective.seq_kd";
  for (std::int64_t i = 0; i < data.size(); ++i)
    if (const auto labels = data[i].labels; !labels.empty() && labels[0] != kIgnored)
      throw UserError(Exit::input, str(setting, ": ", data.source(i),
                                       " has no prompt: all of it is trained on; give prompt and answer "
                                       "columns, or leave ",
                                       setting, " out"));
}

// `positions`: the model's; 0: no limit.
std::unique_ptr<OwnAnswers> make_own(const RunConfig& config, const Batcher& from, std::int64_t per_step,
                                     std::int64_t positions) {
  require_prompts(config.objective, from.data());
  const ObjectiveNeeds needs = config.objective.needs();
  const std::int64_t allowed = config.data.max_seq_length,
                     longest = positions > 0 ? std::min(allowed, positions) : allowed;
  auto own = std::make_unique<OwnAnswers>(
      from, OwnAnswersOptions{.share = needs.own,
                              .rest = needs.taught ? Author::teacher : Author::data,
                              .rows = from.options().batch_size,
                              .step = per_step,
                              .answer = config.objective.answer_length(),
                              .longest = longest,
                              .seed = static_cast<std::uint64_t>(config.training.seed)});
  if (own->longest_prompt() >= longest)
    throw UserError(Exit::input,
                    str("the model has ", positions, " positions, and a prompt of ", own->longest_prompt(),
                        " tokens leaves none for an answer; set data.max_seq_length to at most ", positions));
  return own;
}

// Numbers the answers from 2^40 on, so that no answer in training has the same number.
std::unique_ptr<GeneratedAnswers> make_generated_eval(const ObjectiveConfig& c, const Batcher& from) {
  return std::make_unique<GeneratedAnswers>(from.data(), GeneratedOptions{.group = c.needs().group_eval,
                                                                          .rows = from.options().batch_size,
                                                                          .longest = c.answer_length(),
                                                                          .whole = true,
                                                                          .first = std::int64_t{1} << 40});
}

void check_kind(const RunConfig& config, bool pairs) {
  const CurriculumMetrics& m = config.data_efficiency.data_sampling.curriculum_learning.curriculum_metrics;
  if (pairs && has_curriculum(config.data_efficiency) && m.seqlen_reshape.given())
    throw UserError(Exit::config,
                    "data_efficiency: curriculum_metrics.seqlen_reshape cuts samples into several, and an "
                    "encoder-decoder's cannot be; use seqlen");
}

}  // namespace

bool shares_prompts(const RunConfig& config, bool encoder_decoder) {
  return !encoder_decoder && config.model.sparse_attention.mode == SparsityMode::dense;
}

LoadContext load_context(const RunConfig& config, std::int64_t vocab_size,
                         const std::shared_ptr<std::shared_ptr<const Tokenizer>>& tokenizer) {
  LoadContext context{.vocab_size = vocab_size,
                      .tokenizer = [tokenizer, from = config.model.tokenizer(),
                                    more = new_tokens(config.data)]() -> const Tokenizer& {
                        if (!*tokenizer) *tokenizer = make_tokenizer(from, more);
                        return **tokenizer;
                      },
                      .tokenizer_path = config.model.tokenizer(),
                      .hub = hub::cache_folder()};
  const auto decoder = read_decoder_tokens(join_path(config.model.folder(), "config.json"));
  if (decoder) context.seq2seq = {decoder->start, decoder->pad, decoder->end};
  context.rows = wanted_rows(config.objective);
  require_family(config.objective, decoder.has_value());
  if (decoder && config.objective.rewrites())
    throw UserError(
        Exit::config,
        "objective.lmbda, objective.seq_kd: models answer the examples of decoders only, and this model "
        "is an encoder-decoder; leave them out");
  return context;
}

BuiltData build_data(const RunConfig& config, const ModelInfo& model, LoadPart part,
                     const LoadProgress& progress, int ranks) {
  BuiltData d;
  const auto tokenizer = std::make_shared<std::shared_ptr<const Tokenizer>>();
  const auto seed = static_cast<std::uint64_t>(config.training.seed);
  LoadContext context = load_context(config, model.vocab_size, tokenizer);
  context.progress = progress;
  d.loaded = load_data(config.data, seed, context, part);
  d.written = d.loaded.train_counts.usual();
  const TrainingConfig& t = config.training;
  const ObjectiveKind& objective = *config.objective.type;
  const auto options = [&](std::int64_t size, bool shuffle) {
    BatcherOptions o = batcher_options(config.data, size, shuffle, seed);
    if (context.seq2seq) o.seq2seq = *context.seq2seq;
    if (objective.rows == ObjectiveRows::pairs && objective.scores)
      o.answers.padding = padding_token(config.model);
    if (objective.rows == ObjectiveRows::classified && !context.rows.labels.of_tokens)
      o.padding = padding_token(config.model);
    if (config.objective.pooling_mode == PoolingMode::mean) o.texts = TextTargets::all;
    o.answers.share = shares_prompts(config, context.seq2seq.has_value());
    o.answers.prompt = objective.learns_prompts;
    o.group = config.objective.needs().group;
    if (objective.rows == ObjectiveRows::labelled) o.answers.mixed = config.data.max_seq_length;
    return o;
  };
  const std::int64_t per_step = t.gradient_accumulation_steps * ranks;  // micro-batches
  if (part == LoadPart::train_and_eval && config.data.streaming && t.max_steps <= 0)
    throw UserError(Exit::config, "data.streaming: a stream has no end; set training.max_steps");
  if (part == LoadPart::train_and_eval) check_kind(config, context.seq2seq.has_value());
  const BatcherOptions train = options(t.per_device_train_batch_size, config.data.shuffle);
  if (part == LoadPart::train_and_eval && config.data.streaming) {
    context.progress = {};
    d.stream = std::make_unique<Stream>(config.data, context, train, t.max_steps * per_step);
  } else if (part == LoadPart::train_and_eval) {
    BatcherOptions chosen = train;
    chosen.chosen = chosen_samples(config, d.loaded, train.batch_size * per_step, train.seed);
    d.train = std::make_unique<Batcher>(d.loaded.train, chosen);
    if (config.objective.generates())
      d.generated = make_generated(config, *d.train, ranks);
    else if (config.objective.learns_given())
      d.rollouts = make_rollouts(config.objective, *d.train, per_step);
    else if (config.objective.rewrites())
      d.own = make_own(config, *d.train, per_step, model.positions);
  }
  if (part == LoadPart::train_and_eval &&
      (has_curriculum(config.data_efficiency) || has_random_ltd(config.data_efficiency))) {
    d.efficient = std::make_unique<EfficientBatches>(d.batches(), config.data_efficiency, per_step);
  }
  if (d.loaded.eval.size() > 0)
    d.eval = std::make_unique<Batcher>(d.loaded.eval, options(t.per_device_eval_batch_size, false));
  if (d.eval && config.objective.generates())
    d.generated_eval = make_generated_eval(config.objective, *d.eval);
  d.tokenizer = *tokenizer;
  return d;
}

BuiltData read_data(const RunConfig& config, const BuiltModel& built, int ranks, Screen& screen) {
  Working working(screen, "reading data");
  return build_data(
      config, built.made.info, LoadPart::train_and_eval,
      [&](std::int64_t done, std::int64_t of) { working(done, of); }, ranks);
}

}  // namespace ft
