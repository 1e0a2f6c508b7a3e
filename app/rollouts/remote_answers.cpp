#include "app/rollouts/remote_answers.h"

#include <filesystem>
#include <utility>

#include "app/files/model_files.h"
#include "app/http/key.h"
#include "app/rollouts/on_root.h"
#include "app/rollouts/sampling.h"
#include "engine/core/random.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/staged_folder.h"
#include "engine/ranks/together.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

RolloutServer::Rules rules_of(const RunConfig& config, const BuiltModel& built,
                              std::vector<std::int32_t> ends) {
  const ObjectiveConfig& o = config.objective;
  const std::string key = o.rollout_server_key_file ? read_api_key(*o.rollout_server_key_file) : "";
  return {.access = {without_slash(*o.rollout_server), key, o.server_timeout()},
          .sampling = sampling_of(config),
          .end_tokens = std::move(ends),
          .vocab_size = built.model().vocab_size()};
}

// Sends lists of numbers from rank 0 to all ranks.
template <class T>
void share(Communicator& comm, std::vector<std::vector<T>>& lists) {
  std::vector<std::uint64_t> sizes(lists.size());
  std::vector<T> all;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    sizes[i] = lists[i].size();
    all.insert(all.end(), lists[i].begin(), lists[i].end());
  }
  comm.broadcast(std::as_writable_bytes(std::span(sizes)), 0);
  std::size_t count = 0;
  for (const std::uint64_t size : sizes) count += size;
  all.resize(count);
  comm.broadcast(std::as_writable_bytes(std::span(all)), 0);
  auto at = all.begin();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(sizes[i]);
    lists[i].assign(at, end);
    at = end;
  }
}

// Returns the seed of the answers to a prompt, whose first answer has this number: 53 bits, which every
// server's JSON keeps.
std::int64_t seed_of(const RunConfig& config, std::uint64_t number) {
  constexpr int kDropped = 11;
  const Random of_run = Random{static_cast<std::uint64_t>(config.training.seed)}.with("rollout server");
  return static_cast<std::int64_t>(of_run.with(number).key >> kDropped);
}

}  // namespace

RemoteAnswers::RemoteAnswers(const RunConfig& config, const BuiltModel& built,
                             std::vector<std::int32_t> end_tokens)
    : config_(config), built_(built), server_(rules_of(config, built, std::move(end_tokens))) {
  if (built.purpose.work == Work::train) files_ = make_model_files(built);
}

RemoteAnswers::~RemoteAnswers() {
  ahead_.end();
  try {
    constexpr double kSeconds = 2;
    if (!held_.empty()) server_.unload_adapter(held_, kSeconds);
  } catch (...) {  // the run has ended either way
  }
}

std::int64_t RemoteAnswers::round_of(std::int64_t step) const {
  return step / config_.objective.rollout_sync_steps.value_or(1);
}

// Returns the beginning of the names of this run's adapters.
std::string RemoteAnswers::name_of_run() const {
  constexpr std::size_t kDigits = 8;
  std::error_code none;
  const std::string folder = fs::absolute(config_.training.output_dir, none).lexically_normal().string();
  return str("ft-", sha256(folder).substr(0, kDigits), files_ ? "-train-" : "-eval-");
}

// Finds the base model's name, and takes adapters away that an earlier start of this run has left.
void RemoteAnswers::meet() {
  const std::vector<std::string> there = server_.models();
  const auto& named = config_.objective.rollout_server_model;
  model_ = named ? *named : there[0];
  for (const std::string& name : there)
    if (name.starts_with(name_of_run())) server_.unload_adapter(name);
}

// Writes the adapter into the run's folder, with all ranks. Returns the folder's complete path on rank 0.
std::string RemoteAnswers::write(const Pass& pass) {
  ParameterStore& store = *pass.policy.store;
  Communicator& comm = store.communicator();
  const bool root = comm.rank() == 0;
  const std::string target = join_path(config_.training.output_dir, kRolloutAdapter);
  std::optional<StagedFolder> staged;
  on_root(comm, [&] {
    staged.emplace(target);
    files_->create(staged->path(), false);
  });
  const std::string folder = shared(comm, root ? staged->path() : "");
  together(comm, "write its part of the adapter for the server",
           [&] { fill_in(folder, store, *files_, Content::weights); });
  on_root(comm, [&] {
    files_->complete(folder);
    staged->commit(true);
  });
  std::error_code none;
  return fs::absolute(target, none).string();
}

void RemoteAnswers::hand_over(const Pass& pass, std::optional<std::int64_t> step) {
  const std::int64_t round = step ? round_of(*step) : -1;
  if (step && round == round_) return;
  std::string folder;
  if (files_)
    folder = write(pass);
  else if (const auto& adapter = config_.lora.adapter_name_or_path;
           adapter && config_.finetuning_type == FinetuningType::lora)
    folder = fs::absolute(*adapter).string();
  on_root(pass.policy.store->communicator(), [&] {
    ahead_.settle();  // servers may not go on with answers of an adapter that is taken away
    if (model_.empty()) meet();
    if (!held_.empty()) server_.unload_adapter(std::exchange(held_, ""));
    if (folder.empty()) return;
    const std::string name = name_of_run() + random_tag();
    server_.load_adapter(name, folder);
    held_ = name;
  });
  round_ = round;
}

// Returns the prompts, each once.
std::vector<AskedPrompt> RemoteAnswers::asked(std::span<const Prompt> prompts, std::int64_t group) const {
  std::vector<AskedPrompt> all;
  for (std::size_t i = 0; i < prompts.size(); i += static_cast<std::size_t>(group))
    all.push_back({prompts[i].ids, group, prompts[i].max_new_tokens, seed_of(config_, prompts[i].number)});
  return all;
}

SampledAnswers RemoteAnswers::give(const Pass& pass, std::span<const Prompt> prompts, std::int64_t group,
                                   std::optional<std::int64_t> step) {
  const bool known = step && ahead_.step() == *step;
  if (!known) hand_over(pass, step);
  Communicator& comm = pass.policy.store->communicator();
  SampledAnswers all;
  on_root(comm, [&] { all = known ? ahead_.take() : server_.answers(asked_of(), asked(prompts, group)); });
  if (known && comm.rank() != 0) ahead_.take();
  all.tokens.resize(prompts.size());
  all.logps.resize(prompts.size());
  share(comm, all.tokens);
  share(comm, all.logps);
  return all;
}

void RemoteAnswers::ask_ahead(const Pass& pass, std::vector<Prompt> prompts, std::int64_t group,
                              std::int64_t now, std::int64_t next) {
  hand_over(pass, now);
  if (pass.policy.store->communicator().rank() != 0) return ahead_.begin(next, {});
  ahead_.begin(next,
               [this, group, of = asked_of(), own = std::move(prompts)](const std::function<bool()>& stop) {
                 return server_.answers(of, asked(own, group), stop);
               });
}

std::vector<double> RemoteAnswers::state(Communicator& comm) {
  if (ahead_.step() < 0) return {};
  ahead_.settle();
  SampledAnswers all = ahead_.answers();
  std::vector<std::vector<std::uint64_t>> count{{ahead_.failed() ? 0 : all.tokens.size()}};
  share(comm, count);
  all.tokens.resize(count[0][0]);
  all.logps.resize(count[0][0]);
  share(comm, all.tokens);
  share(comm, all.logps);
  if (all.tokens.empty()) return {};
  std::vector<double> numbers{static_cast<double>(ahead_.step())};
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    numbers.push_back(static_cast<double>(all.tokens[i].size()));
    numbers.insert(numbers.end(), all.tokens[i].begin(), all.tokens[i].end());
    numbers.insert(numbers.end(), all.logps[i].begin(), all.logps[i].end());
  }
  return numbers;
}

void RemoteAnswers::set_state(std::span<const double> numbers) {
  if (numbers.empty()) return;
  std::size_t at = 0;
  const auto next = [&](double low, double high) {
    if (at == numbers.size() || !(low <= numbers[at] && numbers[at] <= high))
      throw UserError(Exit::checkpoint, "the checkpoint's answers of a server are not those of this run");
    return numbers[at++];
  };
  const auto step = static_cast<std::int64_t>(next(0, 9e15));
  const auto last_id = static_cast<double>(built_.model().vocab_size() - 1),
             longest = static_cast<double>(config_.objective.answer_length());
  SampledAnswers all;
  while (at < numbers.size()) {
    const auto count = static_cast<std::size_t>(next(1, longest));
    auto& tokens = all.tokens.emplace_back();
    auto& logps = all.logps.emplace_back();
    for (std::size_t t = 0; t < count; ++t) tokens.push_back(static_cast<std::int32_t>(next(0, last_id)));
    for (std::size_t t = 0; t < count; ++t) logps.push_back(next(-1e30, 1));
  }
  ahead_.put(step, std::move(all));
}

}  // namespace ft
