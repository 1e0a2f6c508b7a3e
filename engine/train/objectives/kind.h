// The description of an objective, which stands in the objective's own file.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ft {

class Judge;
class Objective;
class TeacherFile;
class Valuation;
struct ObjectiveConfig;
struct ScheduleKind;

// The rows of data that an objective learns from. rollouts: answers with rewards, given or generated.
// classified: inputs with labels of a classification. texts: anchors, each with a positive and negatives.
enum class ObjectiveRows : std::uint8_t { examples, pairs, labelled, rollouts, classified, texts };

// Divisor of the difference between an answer's reward and its group's mean.
enum class ScaleRewards : std::uint8_t { group, batch, none };

// A setting of an objective. given: the configuration has a value for it.
struct GivenSetting {
  const char* name;
  bool given;
};

// Default learning rate and schedule of a run: the defaults of TRL's trainers. Adapters that learn from
// examples get ten times the rate of full models.
struct UsualRate {
  double full, adapter;
  const ScheduleKind* schedule;
};

// Requirements of an objective with the settings of a run, in addition to the policy and its data.
struct ObjectiveNeeds {
  bool teacher = false;                    // a model to learn from, or its file
  bool reference = false;                  // log-probabilities of the answers under a reference
  bool precomputed = false;                // the reference's are computed once, before training
  bool kl = false;                         // the distance from the reference, measured on other rows' answers
  bool generates = false;                  // the policy answers prompts, and its answers are rewarded
  std::int64_t group = 1, group_eval = 1;  // answers to one prompt in training and in evaluations
  ScaleRewards scale = ScaleRewards::none;  // of the rewards of given answers
  double own = 0;       // share of the micro-batches of examples whose answers the policy gives
  bool taught = false;  // the teacher gives the answers of the others
};

// Names under which the log has the losses of datasets, by their number in the settings; "": none.
struct ReportedSources {
  std::vector<std::string> train = {}, eval = {};
};

// Arguments of ObjectiveKind::make that are not settings of the objective.
struct ObjectiveParts {
  double label_smoothing = 0;        // for sft
  std::int64_t longest = INT64_MAX;  // tokens of a sequence, to which KTO's mismatched rows are cut
  std::shared_ptr<const TeacherFile> taught = nullptr;  // for distill: in place of a teacher
  ReportedSources sources = {};                         // for sft
};

// Throws an error with this text.
using Refuse = std::function<void(const std::string&)>;

struct ObjectiveKind {
  const char* name;  // in objective.type
  UsualRate rate;
  ObjectiveRows rows = ObjectiveRows::examples;
  bool scores = false;           // trains a model that scores or embeds texts, not one that writes them
  bool learns_prompts = false;   // the prompts of chosen answers are targets too
  bool encoder_decoder = false;  // encoder-decoders have it
  // Settings, in the order of help; null: none. See settings_of() in config.h.
  std::vector<GivenSetting> (*settings)(const ObjectiveConfig&) = nullptr;
  // Words of its loss types, the default first; null: it has no loss_type. See loss_words() in config.h.
  std::vector<std::string> (*losses)() = nullptr;
  bool adds_losses = false;  // several loss types are added up
  // Checks rules between its settings; null: there are none.
  void (*check)(const ObjectiveConfig&, const Refuse&) = nullptr;
  ObjectiveNeeds (*needs)(const ObjectiveConfig&) = nullptr;  // null: nothing

  // An objective that compares answers has a judge, and a judge of its critic if it trains one. Another
  // objective makes itself.
  std::unique_ptr<Judge> (*judge)(const ObjectiveConfig&) = nullptr;
  std::unique_ptr<Judge> (*critic)(const ObjectiveConfig&) = nullptr;
  std::unique_ptr<Objective> (*make)(const ObjectiveConfig&, const ObjectiveParts&) = nullptr;
  // Turns rewards of generated answers into numbers to train with; null: it generates none.
  std::unique_ptr<const Valuation> (*valuation)(const ObjectiveConfig&) = nullptr;

  static std::span<const ObjectiveKind* const> all();
};

// Returns the words of all objectives' loss types, each once.
std::vector<std::string> all_losses();

namespace objectives {
extern const ObjectiveKind kSft;  // the default
}

}  // namespace ft
