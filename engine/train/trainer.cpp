#include "engine/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

#include "engine/ops/trace_ops.h"
#include "engine/train/pipeline.h"

namespace ft {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::int64_t kTurns = 4096;  // changes of phase before their times are read

// Returns a batch for a rank without a micro-batch while others have one: one token without target. So the
// rank takes part in every collective and adds zeros.
Batch idle_batch() {
  Batch b;
  b.input_ids = b.positions = b.source_ids = {0};
  b.starts = b.source_starts = {0, 1};
  return b;
}

// Returns the sum of a number over all ranks.
double sum_over_ranks(Ctx& c, Communicator& comm, Tensor x) {
  comm.all_reduce(x);
  double sum = 0;
  c.ops.download(&sum, x);
  return sum;
}

// Returns the sum of the losses, which a pipeline's last stage has.
double sum_of_losses(Ctx& c, Communicator& comm, Tensor x) {
  if (c.pipeline()) c.pipeline()->all_reduce(x);
  return sum_over_ranks(c, comm, x);
}

void add_to(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(std::max(sums.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

// Returns a power of two with all its digits.
std::string scale_text(double scale) {
  char text[64];
  std::snprintf(text, sizeof text, "%.15g", scale);
  return text;
}

Tensor number(Ctx& c, double value) {
  Tensor t = c.scratch.take({1}, DType::f64);
  c.ops.upload(t, &value);
  return t;
}

// Returns columns of a row: the seconds from one time to another, by phase. Backward includes recomputation.
Measures wall_clock(const Phases::Seconds& from, const Phases::Seconds& to) {
  const auto seconds = [&](Phase p) {
    return to[static_cast<std::size_t>(p)] - from[static_cast<std::size_t>(p)];
  };
  return {{"wall_clock/forward", seconds(Phase::forward)},
          {"wall_clock/backward", seconds(Phase::backward) + seconds(Phase::recompute)},
          {"wall_clock/reduce", seconds(Phase::reduce)},
          {"wall_clock/step", seconds(Phase::step)},
          {"wall_clock/data", seconds(Phase::data)},
          {"wall_clock/save", seconds(Phase::save)}};
}

}  // namespace

Length length_of(const TrainingConfig& t, const BatchSource& data, int ranks) {
  Length l;
  l.batches_per_epoch = data.batches_per_epoch();
  const std::int64_t a_step = t.gradient_accumulation_steps * ranks;
  l.steps_per_epoch = (l.batches_per_epoch + a_step - 1) / a_step;
  l.total_steps =
      t.max_steps > 0
          ? t.max_steps
          : static_cast<std::int64_t>(std::ceil(t.num_train_epochs * static_cast<double>(l.steps_per_epoch)));
  l.epochs = (l.total_steps + l.steps_per_epoch - 1) / l.steps_per_epoch;
  return l;
}

Deal deal_of(const Ctx& c, const Communicator& comm) {
  const int parts = c.grid ? c.grid->shape.sequence : 1;
  return {comm.rank() / parts, comm.size() / parts};
}

Trainer::Trainer(TrainerParts parts, const TrainConfig& config)
    : p_(std::move(parts)),
      config_(config),
      own_(p_.objective ? nullptr
                        : make_objective({}, {.label_smoothing = config.training.label_smoothing_factor})),
      objective_(p_.objective ? *p_.objective : *own_),
      length_(length_of(config.training, p_.data, deal().ranks)),
      optimizer_(make_optimizer(config.training)),
      schedule_(make_schedule(config.training, length_.total_steps)),
      by_evaluations_(make_evaluated_rate(config)),
      saving_(p_.checkpoints, world(), p_.report, p_.snapshot) {
  if (config.training.fp16) scaler_.emplace(config.training.loss_scaling);
  if (config.logging.wall_clock_breakdown) p_.context.ops.phases().measure(p_.context.ops.stamps(kTurns));
}

bool Trainer::due(double every, std::int64_t step) const {
  return step % std::max<std::int64_t>(1, steps_of(every, length_.total_steps)) == 0;
}

double Trainer::epoch_of(std::int64_t step) const {
  const std::int64_t whole = step / length_.steps_per_epoch, rest = step % length_.steps_per_epoch;
  const auto batches = static_cast<double>(rest * batches_per_step());
  return static_cast<double>(whole) + batches / static_cast<double>(length_.batches_per_epoch);
}

std::int64_t Trainer::batches_per_step() const {
  return config_.training.gradient_accumulation_steps * deal().ranks;
}

Trainer::Step Trainer::batches_of(std::int64_t index) const {
  Step s{.index = index, .epoch = index / length_.steps_per_epoch};
  s.begin = index % length_.steps_per_epoch * batches_per_step();
  s.end = std::min(s.begin + batches_per_step(), length_.batches_per_epoch);
  for (std::int64_t i = s.begin; i < s.end; ++i) {
    const BatchShape shape = p_.data.shape(s.epoch, i);
    s.targets += objective_.count(shape);
    s.tokens += shape.all_tokens();
  }
  return s;
}

// Returns the number of micro-batches in a step: interleaved stages need a multiple of their ranks.
// Micro-batches without targets fill up an epoch's last step.
std::int64_t Trainer::rounds_of(std::int64_t micro_batches) const {
  const GridShape shape = p_.context.grid ? p_.context.grid->shape : GridShape();
  return shape.chunks > 1 ? round_up(micro_batches, std::int64_t{shape.pipeline}) : micro_batches;
}

// Computes the gradients of the step's micro-batches, which the ranks take in turns; returns the sum of all
// losses. Random numbers depend on the micro-batch, not on the rank that takes it.
double Trainer::accumulate(Ctx& c, const Step& s) {
  Scope scratch(c.scratch);
  Tensor loss = number(c, 0);
  const float scale =
      static_cast<float>(s.loss_scale) / static_cast<float>(std::max<std::int64_t>(1, s.targets));
  const Random random = Random{static_cast<std::uint64_t>(config_.training.seed)}.with("dropout").with(
      static_cast<std::uint64_t>(s.index));
  const auto [rank, ranks] = deal();
  const std::int64_t rounds = rounds_of((s.end - s.begin + ranks - 1) / ranks);
  const auto take = [&, rank = rank, ranks = ranks](std::int64_t round, Ctx& own) {
    const std::int64_t i = s.begin + round * ranks + rank;
    p_.report.micro_step(round + 1, rounds);
    own.random = random.with(static_cast<std::uint64_t>(i - s.begin));
    own.begin(Phase::data);
    own.ops.enter("inputs");
    own.tokens_weight = i < s.end ? s.mean_weight(p_.data.shape(s.epoch, i).all_tokens()) : 0;
    return i < s.end ? p_.data.batch(s.epoch, i) : idle_batch();
  };
  if (c.pipeline()) {
    run_stage({*p_.model.stages(), p_.store, c, objective_.stage_loss(loss, scale), rounds, take});
    p_.store.reduction().add_up_ends();
  } else {
    for (std::int64_t i = 0; i < rounds; ++i) {
      p_.store.begin_micro_step(i + 1 == rounds);
      if (p_.others.critic) p_.others.critic.store->begin_micro_step(i + 1 == rounds);
      const Batch batch = take(i, c);
      objective_.forward_backward(pass(c), batch, loss, scale);
    }
  }
  c.begin(Phase::reduce);
  return sum_of_losses(c, p_.comm, loss);
}

// Runs `part`; if the objective refuses the step, saves the training so far and rethrows.
void Trainer::or_save(TrainState& state, const std::function<void()>& part) {
  try {
    part();
  } catch (const StepRefused&) {
    if (steps_ > 0) save(state);
    finish_saving();
    throw;
  }
}

// Runs a step. A skipped step counts as one of the run's, like DeepSpeed's global_steps, but neither for the
// schedule nor for the optimizer.
Trainer::Step Trainer::step(TrainState& state) {
  p_.comm.at_step(state.step + 1);
  or_save(state, [&] { objective_.begin_step(pass(p_.context), state.step); });
  Step s = batches_of(state.step);
  const std::int64_t taken = s.index - state.skipped_steps;
  if (scaler_) s.loss_scale = scaler_->scale();
  s.rate = by_evaluations_ ? by_evaluations_->rate() : schedule_->rate(taken);
  auto beside = early(state, s, taken);
  s.early = beside.has_value();
  s.own = takes_own(*optimizer_, taken + 1);
  p_.store.begin_step(std::move(beside), s.own);
  if (p_.others.critic) p_.others.critic.store->begin_step({}, s.own);
  s.loss_sum = accumulate(p_.context, s);
  s.columns = objective_.take_columns();
  sum_over_ranks(p_.context, p_.comm, s.columns);
  p_.context.begin(Phase::step);
  s.grad_norm = p_.store.grad_norm(taken + 1) / s.loss_scale;
  if (p_.others.critic) s.critic_norm = p_.others.critic.store->grad_norm(taken + 1) / s.loss_scale;
  p_.store.stepping().finish_early();
  // A forward pass that overflows cannot be repaired by a loss scale.
  if (!std::isfinite(s.loss_sum) || (!scaler_ && !s.finite())) refuse_or_skip(state, s);
  update(state, s, taken);
  return s;
}

bool Trainer::delays(const Step& s) const {
  return p_.store.parts().keeps_gradients() && s.index >= config_.delayed_update_after;
}

StepScalars Trainer::scalars_of(const Step& s, std::int64_t taken) const {
  return {.rate = s.rate, .grad_scale = 1, .step = taken + 1, .betas = schedule_->betas(taken)};
}

// Returns the update to make during the backward pass: the last step's delayed update, else this step's if
// its gradient norm, which is known only at the end, is not needed.
std::optional<EarlyStep> Trainer::early(const TrainState& state, const Step& s, std::int64_t taken) const {
  const TrainingConfig& t = config_.training;
  if (state.delayed) return early_step(*optimizer_, *state.delayed, true);
  const bool norm_first = scaler_ || t.max_grad_norm > 0 || t.on_nonfinite == OnNonFinite::skip;
  if (!p_.store.stepping().steps_early() || delays(s) || norm_first) return {};
  return early_step(*optimizer_, scalars_of(s, taken), false);
}

// Applies this step's gradients, now or in the next step.
void Trainer::update(TrainState& state, Step& s, std::int64_t taken) {
  const bool previous = state.delayed.has_value();
  state.delayed.reset();
  const bool skipped = s.nonfinite || (scaler_ && skips(state, s));
  StepScalars scalars = scalars_of(s, taken);
  scalars.grad_scale = clip_coefficient(s.grad_norm, config_.training.max_grad_norm) / s.loss_scale;
  if (!skipped && delays(s)) state.delayed = scalars;
  if (skipped || delays(s) || (s.early && !previous)) {
    if (s.early) p_.store.publish();
  } else {
    take_step(p_.context.ops, p_.store, *optimizer_, scalars, &p_.context.scratch);
  }
  if (p_.others.critic && !skipped) step_critic(s, taken);
}

void Trainer::step_critic(const Step& s, std::int64_t taken) {
  StepScalars scalars = scalars_of(s, taken);
  scalars.grad_scale = clip_coefficient(s.critic_norm, config_.training.max_grad_norm) / s.loss_scale;
  take_step(p_.context.ops, *p_.others.critic.store, *optimizer_, scalars, &p_.context.scratch);
}

// All ranks have the same norm, so that they decide equally.
bool Trainer::skips(TrainState& state, Step& s) {
  const bool overflow = !s.finite();
  const bool scaled = scaler_->update(overflow);
  state.loss_scaler = scaler_->state();
  if (!scaled) {
    refuse_or_skip(state, s);
    return true;
  }
  if (!overflow) return false;
  ++state.skipped_steps;
  p_.report.note(str("step ", s.index + 1, " is skipped: its gradients overflow float16 at a loss scale of ",
                     scale_text(s.loss_scale), "; the next has ", scale_text(scaler_->scale())));
  return true;
}

// Reports the step; then skips it, by training.on_nonfinite, or ends the run. All ranks have the same loss
// and the same norm.
void Trainer::refuse_or_skip(TrainState& state, Step& s) {
  const TrainingConfig& t = config_.training;
  p_.report.nonfinite({s.index + 1, s.epoch, s.begin, s.end, s.loss_sum, s.grad_norm});
  if (t.on_nonfinite == OnNonFinite::stop || state.nonfinite_steps >= t.max_nonfinite_steps)
    explain_not_finite(s);
  s.nonfinite = true;
  ++state.nonfinite_steps;
  ++state.skipped_steps;
  p_.report.warning(str("step ", s.index + 1,
                        " is skipped: ", std::isfinite(s.loss_sum) ? "its gradient" : "its loss",
                        " is not finite; training.max_nonfinite_steps allows ",
                        t.max_nonfinite_steps - state.nonfinite_steps, " more"));
}

// Runs the step again under a tracer that checks every result, and ends the run with the first result that is
// not finite.
void Trainer::explain_not_finite(const Step& s) {
  finish_saving();
  const bool loss_bad = !std::isfinite(s.loss_sum);
  std::string first = loss_bad ? "the loss" : "the gradient's norm";
  if (!s.early) {  // after an early update the step's weights are gone
    TraceOps trace(p_.context.ops, {.finite = true});
    const Ctx& own = p_.context;
    Ctx c{trace, own.saved, own.scratch, own};
    p_.store.begin_step();
    if (p_.others.critic) p_.others.critic.store->begin_step();
    accumulate(c, s);
    if (const auto& found = trace.not_finite())
      first = str(found->role, " of ", found->op, " in ", found->where);
  }
  const char* skipped_before = config_.training.on_nonfinite == OnNonFinite::skip
                                   ? "\n  training.max_nonfinite_steps steps were skipped before"
                                   : "";
  const char* scaled = scaler_ && !loss_bad ? ", although the loss scale is at its minimum" : "";
  const char* half = scaler_ ? "\n  if float16's range is too small (up to 65504): training.fp16=false, or "
                               "training.bf16=true instead"
                             : "";
  throw UserError(Exit::numeric,
                  str("step ", s.index + 1, ": ", loss_bad ? "the loss" : "the gradient",
                      " is not a finite number", scaled, "; the first such: ", first, half, skipped_before,
                      "\n  if training diverged: a lower training.learning_rate, warm-up, or "
                      "training.max_grad_norm helps"));
}

void Trainer::log(TrainState& state, const Step& s) {
  StepRow row{.step = state.step,
              .epoch = epoch_of(state.step),
              .loss = s.targets && !s.nonfinite ? s.loss_sum / static_cast<double>(s.targets) : NAN,
              .learning_rate = s.rate,
              .grad_norm = s.grad_norm,
              .tokens_per_second = static_cast<double>(row_tokens_) / std::max(row_seconds_, 1e-9),
              .num_input_tokens_seen = state.tokens_seen};
  row.flops_per_second = row.tokens_per_second * p_.flops_per_token;
  if (scaler_) row.loss_scaling = LossScalingRow{s.loss_scale, state.skipped_steps};
  row.columns = objective_.measures(s.columns);
  p_.report.progress(row);
  row.columns.clear();
  const bool first = state.step == 1 && config_.logging.logging_first_step;
  if (!first && !due(config_.logging.logging_steps, state.step) && state.step != length_.total_steps) return;
  if (config_.logging.wall_clock_breakdown) {
    const Phases::Seconds now = p_.context.ops.phases().seconds();
    row.columns = wall_clock(std::exchange(row_phases_, now), now);
  }
  if (state.nonfinite_steps > 0)
    row.columns.emplace_back("nonfinite_steps", static_cast<double>(state.nonfinite_steps));
  if (p_.comm.size() > 1) row.columns.emplace_back("sent_per_step", static_cast<double>(sent_));
  if (p_.columns)
    for (auto& column : p_.columns(state.step)) row.columns.push_back(std::move(column));
  for (auto& column : objective_.measures(state.column_sums)) row.columns.push_back(std::move(column));
  if (state.loss_targets > 0) row.loss = state.loss_sum / static_cast<double>(state.loss_targets);
  p_.report.step(row);
  state.column_sums.clear();
  state.loss_sum = 0;
  state.loss_targets = 0;
  row_tokens_ = 0;
  row_seconds_ = 0;
}

Evaluated evaluate(const Pass& pass, Objective& objective, const BatchSource& data,
                   const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Ctx c = pass.context;
  c.train = false;
  Communicator& comm = pass.policy.store->communicator();
  const Pass inner{c, pass.policy, pass.others};
  const std::optional<double> known = objective.begin_evaluation(inner);
  Scope scratch(c.scratch);
  Tensor loss = number(c, 0);
  Evaluated e;
  const std::int64_t batches = data.batches_per_epoch();
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    e.targets += objective.count(data.shape(0, i));
    counted += objective.count_evaluated(data.shape(0, i));
  }
  const auto [rank, ranks] = deal_of(c, comm);
  for (std::int64_t first = 0; first < batches && !known; first += ranks) {
    const std::int64_t i = first + rank;
    objective.forward(inner, i < batches ? data.batch(0, i) : idle_batch(), loss);
    progress(std::min(first + ranks, batches), batches);
  }
  const double sum = sum_of_losses(c, comm, loss);
  e.loss = counted > 0 ? sum / static_cast<double>(counted) : 0;
  if (known) e.loss = *known;
  std::vector<double> columns = objective.take_columns();
  sum_over_ranks(c, comm, columns);
  e.columns = objective.measures(columns);
  return e;
}

bool Trainer::evaluate_and_judge(TrainState& state) {
  const double start = now();
  Evaluated e;
  or_save(state, [&] {
    e = evaluate(pass(p_.context), objective_, *p_.eval,
                 [&](std::int64_t done, std::int64_t of) { p_.report.evaluating(done, of); });
  });
  EvalRow row{.step = state.step, .epoch = epoch_of(state.step), .eval_loss = e.loss};
  row.perplexity = objective_.is_cross_entropy() ? std::exp(row.eval_loss) : NAN;
  row.measures = e.columns;
  if (p_.measure)
    for (auto& measure : p_.measure()) row.measures.push_back(std::move(measure));
  row.seconds = now() - start;
  const double figure = row.figure(config_.evaluation.metric_for_best_model);
  row.best = better(figure, state.best, config_.evaluation.greater());
  if (row.best) {
    state.best = figure;
    state.best_step = state.step;
  }
  if (by_evaluations_) {
    by_evaluations_->evaluated(figure);
    state.evaluated_rate = by_evaluations_->state();
  }
  state.evaluations_since_best = row.best ? 0 : state.evaluations_since_best + 1;
  p_.report.evaluation(row);
  return row.best;
}

// Adds a step's loss and columns to the sums of the next row and of the run.
void Trainer::add_losses(TrainState& state, const Step& s) {
  add_to(state.column_sums, s.columns);
  for (double* sum : {&state.loss_sum, &state.run_loss_sum}) *sum += s.loss_sum;
  for (std::int64_t* n : {&state.loss_targets, &state.run_loss_targets}) *n += s.targets;
}

// Tells all ranks if any rank was asked to save or stop, so that all do it at the same step. A rank that
// could not write a checkpoint stops all. Ranks also learn here that all parts of a checkpoint are written.
Trainer::Asked Trainer::asked() {
  Ctx& c = p_.context;
  Scope scratch(c.scratch);
  Communicator& all = world();
  constexpr double kSave = 1 << 20, kStop = kSave * kSave;  // each more than there are ranks, times the other
  const bool stop = saving_.failed() || p_.stop_asked();
  const double own = (stop ? kStop : p_.save_asked() ? kSave : 0) + (saving_.written() ? 1 : 0);
  const double sum = all.size() == 1 ? own : sum_over_ranks(c, all, number(c, own));
  if (std::fmod(sum, kSave) == all.size()) saving_.all_written();
  saving_.look();
  return sum >= kStop ? Asked::stop : sum >= kSave ? Asked::save : Asked::nothing;
}

Ending Trainer::run(TrainState& state) {
  if (scaler_ && state.loss_scaler) scaler_->restore(*state.loss_scaler);
  if (by_evaluations_ && state.evaluated_rate) by_evaluations_->restore(*state.evaluated_rate);
  objective_.set_state(state.objective);
  begin_audits(state);
  const Ending ending = steps(state);
  saving_.finish();
  return ending;
}

Ending Trainer::steps(TrainState& state) {
  const EvaluationConfig& ev = config_.evaluation;
  const CheckpointingConfig& ck = config_.checkpointing;
  while (state.step < length_.total_steps) {
    const double start = now();
    const Traffic before = traffic_of(p_.comm, p_.store, p_.context.inputs);
    const Step s = step(state);
    p_.context.begin(Phase::other);
    p_.context.ops.synchronize();  // the optimizer's work is part of the step
    const Traffic now_moved = traffic_of(p_.comm, p_.store, p_.context.inputs) - before;
    traffic_ = traffic_ + now_moved;
    sent_ = now_moved.sent;
    ++steps_;
    const double seconds = now() - start;
    train_seconds_ += seconds;
    row_seconds_ += seconds;
    row_tokens_ += s.tokens;
    ++state.step;
    state.tokens_seen += s.tokens;
    if (!s.nonfinite) add_losses(state, s);
    state.flops += p_.flops_per_token * static_cast<double>(s.tokens);
    log(state, s);
    audit(state, s);

    const bool pass = state.step % length_.steps_per_epoch == 0 || state.step == length_.total_steps;
    const bool judge =
        p_.eval && ((ev.eval_strategy == EvalStrategy::steps && due(ev.eval_steps, state.step)) ||
                    (ev.eval_strategy == EvalStrategy::epoch && pass));
    const bool best = judge && evaluate_and_judge(state);
    // The last step is saved too, as by transformers, so that a longer run can continue from it.
    const bool last = state.step == length_.total_steps;
    const bool wanted =
        (ck.save_strategy == SaveStrategy::steps && (last || due(ck.save_steps, state.step))) ||
        (ck.save_strategy == SaveStrategy::epoch && pass) ||
        (best && (ck.save_strategy == SaveStrategy::best || ev.load_best_model_at_end));
    if (wanted) save(state);
    if (ev.early_stopping_patience && judge && state.evaluations_since_best >= *ev.early_stopping_patience)
      return Ending::early;
    const Asked now_asked = state.step < length_.total_steps ? asked() : Asked::nothing;
    if (now_asked != Asked::nothing) save(state);
    if (now_asked == Asked::stop) return Ending::preempted;
  }
  return Ending::finished;
}

}  // namespace ft
