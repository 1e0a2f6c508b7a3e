// Safety of the Trainer: checkpoints, and audits of tensors that ranks must hold equally.
#include <exception>

#include "engine/train/trainer.h"

namespace ft {

void Trainer::save(TrainState& state) {
  if (saved_step_ == state.step) return;
  state.objective = objective_.state(p_.context, p_.comm);
  const std::int64_t best = config_.evaluation.load_best_model_at_end ? state.best_step : 0;
  const auto extra = [&](const std::string& to) {
    p_.add_to_checkpoint(to);
    p_.report.sync();
    p_.report.saving(state.step, to);
  };
  during(p_.context.ops.phases(), Phase::save, [&] {
    saving_.save(state, extra, [this, best] {
      if (const auto most = config_.checkpointing.save_total_limit) p_.checkpoints.prune(*most, best);
    });
  });
  saved_step_ = state.step;
}

// Before an error that all ranks throw: waits for the last checkpoint. If it could not be written, warns, so
// that the run ends with the error.
void Trainer::finish_saving() {
  try {
    saving_.finish();
  } catch (const std::exception& e) {
    p_.report.warning(e.what());
  }
}

// Audits the state at the start too, so that a rank that read other bits is found before the first step.
void Trainer::begin_audits(const TrainState& state) {
  if (config_.training.audit_steps == 0) return;
  if (world().size() == 1) {
    p_.report.note("training.audit_steps: one rank has no other to compare with; nothing is audited");
    return;
  }
  std::vector<ParameterStore*> stores{&p_.store};
  for (const Policy& other : {p_.others.reference, p_.others.scorer, p_.others.critic})
    if (other) stores.push_back(other.store);
  audit_.emplace(p_.context.ops, stores, world());
  p_.report.note(audit_->compared() > 0
                     ? str("training.audit_steps: every ", config_.training.audit_steps,
                           " steps, rank 0 compares ", audit_->compared(), " tensors with other ranks")
                     : "training.audit_steps: rank 0 holds no tensor that others hold too; only the position "
                       "in the run is "
                       "compared");
  audit_->check(state.step, str("step ", state.step, ", tokens ", state.tokens_seen), false);
}

void Trainer::audit(const TrainState& state, const Step& s) {
  if (!audit_ || state.step % config_.training.audit_steps != 0) return;
  const std::string position = str(
      "seed ", config_.training.seed, ", step ", state.step, ", skipped ", state.skipped_steps, ", epoch ",
      s.epoch, ", micro-batches ", s.begin, " to ", s.end, ", tokens ", s.tokens, ", targets ", s.targets,
      ", tokens seen ", state.tokens_seen, ", rate ", s.rate, ", loss scale ", s.loss_scale);
  try {
    audit_->check(state.step, position, !s.own);
  } catch (const UserError& e) {
    if (e.code == Exit::corruption) finish_saving();  // all ranks are here
    throw;
  }
}

}  // namespace ft
