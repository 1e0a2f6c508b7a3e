#include "app/screen/run_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// Returns names without "_proj": in a list of projections the ending is redundant.
std::string short_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    const std::string& name = names[i];
    out += (i ? " " : "") + (name.ends_with("_proj") ? name.substr(0, name.size() - 5) : name);
  }
  if (names.size() > kMost) out += str(" and ", names.size() - kMost, " more");
  return out;
}

std::string adapter_text(const RunHeader& h) {
  const AdapterHeader& a = *h.adapter;
  const auto trained = static_cast<double>(h.trained_parameters);
  return str(a.kind, " ", a.size, a.alpha ? ", alpha " + show::number(*a.alpha) : "", ", on ",
             show::plural(a.linears, "linear"), " (", short_names(a.targets), "): ", show::quantity(trained),
             " trained, ", show::percent(trained, static_cast<double>(h.parameters)));
}

std::string data_text(const DataHeader& d) {
  if (d.streamed_bytes > 0) {
    std::string out = str("streamed from ", show::file_size(d.streamed_bytes), " of files");
    if (d.shuffled_at_once > 0)
      out += str(", ", show::plural(d.shuffled_at_once, "sample"), " shuffled at once");
    if (d.held_out > 0) out += str("; ", show::plural(d.held_out, "sample"), " held out");
    return out;
  }
  std::string out = sample_text(d);
  if (d.packed)
    out += str(", packed into ", show::count(d.sequences), " x ", show::count(d.length), " (",
               show::percent(static_cast<double>(d.tokens), static_cast<double>(d.sequences * d.length)),
               " full)");
  else if (d.length > 0)
    out += str(", longest ", show::count(d.length));
  if (d.held_out > 0) out += str("; ", show::plural(d.held_out, "sample"), " held out");
  return out;
}

std::string memory_text(const RunHeader& h) {
  const MemoryReport& m = h.memory;
  struct Part {
    const char* name;
    std::int64_t bytes;
  };
  const show::MemoryUnit unit = show::memory_unit(m.total);
  std::string out;
  for (const Part p :
       {Part{"weights", m.weights}, Part{"adapter", m.adapter}, Part{"gradients", m.gradients},
        Part{"optimizer", m.optimizer}, Part{"activations", m.activations}, Part{"workspace", m.scratch},
        Part{"communication", m.communication}, Part{"CUDA", m.cuda}, Part{"snapshot", m.snapshot}})
    if (p.bytes > 0) out += str(out.empty() ? "" : " + ", p.name, " ", show::memory(p.bytes, unit));
  out += str(out.empty() ? "" : " = ", show::memory(m.total, unit));
  if (h.memory_there > 0 && std::string(unit.name) == "GiB")
    out += " of " + show::memory(h.memory_there, unit);
  out += str(" ", unit.name);
  if (m.host > 0) out += str(", and ", show::memory(m.host), " on the host");
  if (m.elsewhere > 0) out += str(", and ", show::file_size(m.elsewhere), " in files");
  if (h.blocks > 0) out += str("; recomputes ", h.recomputed, " of ", show::plural(h.blocks, "block"));
  if (h.segment > 1) out += str(", ", h.segment, " at a time from the input of the first");
  if (h.whole > 0) out += str("; keeps norms and activations of ", show::plural(h.whole, "block"));
  return out;
}

}  // namespace

std::string rate_text(const RunHeader& h) {
  return str(show::rate(h.learning_rate), ", ", h.schedule,
             h.usual_rate.empty() ? "" : " (default of " + h.usual_rate + ": training.learning_rate)");
}

// Describes the data. Prompts have no targets, because the run answers them itself.
std::string sample_text(const DataHeader& d) {
  const std::string tokens = show::quantity(static_cast<double>(d.tokens)) + " tokens";
  if (d.target_tokens == 0) return str(show::plural(d.samples, "prompt"), ", ", tokens);
  return str(show::plural(d.samples, "sample"), ", ", tokens, " (",
             show::percent(static_cast<double>(d.target_tokens), static_cast<double>(d.tokens)), " trained)");
}

// Names the sequences of a step. An epoch of packed data may have fewer of them than a step could take.
std::string sequences_text(const RunHeader& h) {
  if (!h.data.packed) return show::plural(h.sequences_per_step, "sequence");
  const std::int64_t packs =
      h.data.sequences > 0 ? std::min(h.sequences_per_step, h.data.sequences) : h.sequences_per_step;
  return show::plural(packs, "packed sequence");
}

std::string title_line(const RunHeader& h) {
  return str("ft ", h.version, "  ", h.config.empty() ? "" : show::path(h.config) + " -> ",
             show::path(h.output));
}

std::vector<LabelledLine> header_lines(const RunHeader& h) {
  std::vector<LabelledLine> lines;
  const auto parameters = static_cast<double>(h.parameters);
  lines.push_back({"model", str(h.architecture, ", ", show::quantity(parameters), " parameters, ", h.dtype,
                                h.model.empty() ? "" : ", from " + show::path(h.model))});
  if (h.adapter)
    lines.push_back({"adapter", adapter_text(h)});
  else
    lines.push_back(
        {"training",
         str("full fine-tuning: ", show::quantity(static_cast<double>(h.trained_parameters)),
             " parameters trained, ", show::percent(static_cast<double>(h.trained_parameters), parameters))});
  if (h.data.samples > 0 || h.data.streamed_bytes > 0) lines.push_back({"data", data_text(h.data)});
  if (h.memory.total > 0) lines.push_back({"memory", memory_text(h)});
  std::string steps = str(show::count(h.steps_per_epoch), " per epoch, ", show::count(h.steps), " in all");
  if (h.sequences_per_step > 0) steps += "; " + sequences_text(h) + " per step";
  lines.push_back({"steps", steps});
  if (h.learning_rate > 0) lines.push_back({"rate", rate_text(h)});
  if (!h.ranks.empty()) lines.push_back({"ranks", h.ranks});
  if (!h.cudnn.empty())
    lines.push_back({"cuDNN", h.cudnn + ": 16-bit attention, ft's own kernels where it has no plan"});
  if (h.resumed_step > 0)
    lines.push_back(
        {"resumed", str("after step ", show::count(h.resumed_step), ", ",
                        show::count(std::max<std::int64_t>(0, h.steps - h.resumed_step)), " to go")});
  return lines;
}

std::string measures_text(const Measures& measures) {
  std::string text;
  for (const auto& [name, value] : measures) text += str("  ", name, " ", show::digits(value));
  return text;
}

std::string evaluation_line(const EvalRow& row) {
  const std::string perplexity =
      std::isnan(row.perplexity) ? "" : "  perplexity " + show::digits(row.perplexity);
  return str("step ", show::count(row.step), "  eval loss ", show::loss(row.eval_loss), perplexity,
             measures_text(row.measures), row.best ? "  best so far" : "");
}

namespace {

// Returns the last lines. A stopped run first says how to continue.
std::vector<LabelledLine> ending_lines(const RunHeader& h, const Summary& s) {
  const std::string at = str("after step ", show::count(s.step), " of ", show::count(h.steps));
  std::string text = str(show::duration(s.train_runtime), ", ", show::speed(s.train_tokens_per_second));
  if (s.memory.total > 0) {
    const show::MemoryUnit unit = show::memory_unit(s.memory.total);
    text += str(", peak ", show::memory(s.memory.total, unit), " ", unit.name);
    if (h.memory.total > 0) text += str(" (planned ", show::memory(h.memory.total, unit), ")");
  }
  if (s.finished) return {{"done", str(show::plural(s.step - h.resumed_step, "step"), " in ", text)}};
  if (s.resume.empty()) return {{"stopped", str(at, ", ", text, s.why.empty() ? "" : ": " + s.why)}};
  return {{str("stopped by ", s.why, " ", at, "."), "Continue: " + s.resume, true}, {"took", text}};
}

std::string from_to(const std::vector<double>& values) {
  return (values.size() > 1 ? show::loss(values.front()) + " -> " : "") + show::loss(values.back());
}

std::string reward_text(const Course& course) {
  std::string text = from_to(course.reward);
  if (course.equally_rewarded == 0) return text;
  text += course.equally_rewarded == course.rewarded
              ? ": nothing was learned, since in every step"
              : str("; nothing was learned in ", show::count(course.equally_rewarded), " of ",
                    show::plural(course.rewarded, "step"), ", where");
  return text + " all answers to a prompt got the same reward";
}

}  // namespace

std::string saved_line(const SavedRow& row) {
  const std::filesystem::path& path = row.folder;
  const std::filesystem::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  const std::string waited = row.waited ? ", training waited " + show::duration(*row.waited) : "";
  return str("step ", show::count(row.step), "  saved ", name.string(), " (", show::duration(row.seconds),
             waited, ")");
}

void Course::take_rewards(const Measures& columns) {
  for (const auto& [name, value] : columns) {
    if (name == "reward") reward.push_back(value);
    if (name != "frac_reward_zero_std") continue;
    ++rewarded;
    equally_rewarded += value >= 1;
  }
}

std::vector<LabelledLine> summary_lines(const RunHeader& h, const Summary& s, const Course& course) {
  std::vector<LabelledLine> lines = ending_lines(h, s);
  if (!course.loss.empty()) {
    const auto has_loss = [](double x) { return !std::isnan(x); };
    std::vector<double> losses;
    std::copy_if(course.loss.begin(), course.loss.end(), std::back_inserter(losses), has_loss);
    std::string loss = losses.empty() ? "-" : from_to(losses);
    if (!course.held_out.empty()) {
      const EvalRow &first = course.held_out.front(), &last = course.held_out.back();
      loss += "   held out " + (first.step == last.step ? "" : show::loss(first.eval_loss) + " -> ") +
              show::loss(last.eval_loss);
      if (course.best_step > 0 && !(last.eval_loss <= course.best))
        loss += str(" (best ", show::loss(course.best), " at step ", show::count(course.best_step), ")");
    }
    lines.push_back({"loss", loss});
  }
  if (!course.reward.empty()) lines.push_back({"reward", reward_text(course)});
  for (const Made& made : s.made)
    lines.push_back({made.what,
                     show::path(made.path) + (made.bytes > 0 ? " (" + show::file_size(made.bytes) + ")" : ""),
                     true});
  for (std::size_t i = 0; i < s.next.size(); ++i) lines.push_back({i ? "" : "next", s.next[i], true});
  return lines;
}

}  // namespace ft
