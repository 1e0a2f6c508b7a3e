#include "app/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/version/version.h"

namespace ft {
namespace {

constexpr std::size_t kTopic = 11;  // columns

std::string filled(const std::string& text, std::size_t width) {
  const auto columns = static_cast<std::size_t>(show::columns(text));
  return text + std::string(columns < width ? width - columns : 0, ' ');
}

std::string sign(const Screen& screen, Health h) {
  switch (h) {
    case Health::good:
      return screen.green("ok    ");
    case Health::advice:
      return screen.yellow("note  ");
    case Health::bad:
      return screen.bold("wrong ");
  }
  return "";
}

void show_finding(Screen& screen, const Finding& f) {
  const int indent = 2 + 6 + static_cast<int>(kTopic);
  screen.line("  " + sign(screen, f.health) + filled(f.topic, kTopic) + f.what, indent);
  if (!f.todo.empty())
    screen.line(std::string(static_cast<std::size_t>(indent), ' ') + screen.dim("-> ") + f.todo, indent);
}

// Shows a machine on one line, and a line for each of its problems.
void show_in_short(Screen& screen, const Examined& e) {
  std::string what;
  for (const Finding& f : e.findings)
    if (f.health == Health::good && (f.topic == "processor" || f.topic == "memory" || f.topic == "GPU"))
      what += (what.empty() ? "" : "; ") + f.what;
  if (!what.empty()) show_finding(screen, {.topic = "machine", .what = what});
  for (const Finding& f : e.findings)
    if (f.health != Health::good) show_finding(screen, f);
}

// Shows the connection time from each machine to each other, as a table.
void show_connections(Screen& screen, const std::vector<Examined>& all) {
  std::size_t width = 9;
  for (const Examined& e : all) width = std::max(width, e.host.size() + 2);
  std::string head = filled("connect ms", width);
  for (const Examined& e : all) head += filled("to " + e.host, width + 3);
  screen.line("");
  screen.line(screen.bold(head), Screen::kWhole);
  for (const Examined& from : all) {
    std::string row = filled(from.host, width);
    for (const Examined& to : all) {
      const auto r = std::find_if(from.reached.begin(), from.reached.end(),
                                  [&](const Reached& one) { return one.host == to.host; });
      row += filled(to.host == from.host      ? "-"
                    : r == from.reached.end() ? "?"
                    : !r->problem.empty()     ? "no"
                                              : show::digits(r->milliseconds),
                    width + 3);
    }
    screen.line(row, Screen::kWhole);
  }
  for (const Examined& from : all)
    for (const Reached& r : from.reached)
      if (!r.problem.empty())
        show_finding(screen,
                     {Health::bad, "connection", str(from.host, " cannot reach ", r.host, ": ", r.problem),
                      "open the ports between them: ranks connect to each other, each at a different port",
                      Exit::peer_lost});
}

}  // namespace

Exit exit_of(const std::vector<Examined>& all) {
  for (const Examined& e : all)
    for (const Finding& f : e.findings)
      if (f.health == Health::bad) return f.exit;
  for (const Examined& e : all)
    for (const Reached& r : e.reached)
      if (!r.problem.empty()) return Exit::peer_lost;
  return Exit::done;
}

Json doctor_json(const std::vector<Examined>& all) {
  Json machines = Json::array();
  for (const Examined& e : all) {
    Json reached = Json::array();
    for (const Reached& r : e.reached)
      reached.push_back({{"host", r.host},
                         {"milliseconds", r.problem.empty() ? Json(r.milliseconds) : Json()},
                         {"problem", r.problem.empty() ? Json() : Json(r.problem)}});
    machines.push_back({{"host", e.host}, {"findings", to_json(e.findings)}, {"reached", reached}});
  }
  return {{"version", kVersion}, {"machines", machines}, {"exit", static_cast<int>(exit_of(all))}};
}

void show_doctor(Screen& screen, const std::vector<Examined>& all) {
  screen.line(str("ft ", kVersion, *kCommit ? str(" (", kCommit, ")") : std::string()));
  std::int64_t wrong = 0, notes = 0;
  for (const Examined& e : all) {
    screen.line("");
    screen.line(screen.bold(e.host == "localhost" ? "this machine" : e.host));
    if (&e == &all.front())
      for (const Finding& f : e.findings) show_finding(screen, f);
    else
      show_in_short(screen, e);
    for (const Finding& f : e.findings) {
      wrong += f.health == Health::bad;
      notes += f.health == Health::advice;
    }
    for (const Reached& r : e.reached) wrong += !r.problem.empty();
  }
  if (all.size() > 1) show_connections(screen, all);
  screen.line("");
  const std::string rest = notes == 0 ? "" : str("; ", show::plural(notes, "note"));
  screen.line(wrong == 0 ? screen.green("ready to train") + rest
                         : screen.bold(str("not ready: ", wrong, wrong == 1 ? " thing is" : " things are",
                                           " wrong")) +
                               rest);
}

}  // namespace ft
