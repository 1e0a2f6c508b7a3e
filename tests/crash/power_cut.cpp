#include "tests/crash/power_cut.h"

#include <algorithm>
#include <array>
#include <set>

namespace ft::test {
namespace {

using Action = Step::Action;

bool changes(const Step& s) {
  return s.action == Action::names || s.action == Action::write || s.action == Action::resize;
}

bool syncs(const Step& s) {
  return s.action == Action::sync || s.action == Action::sync_data || s.action == Action::sync_all;
}

// True if `sync`, which comes later, brings `change` to the disk.
bool brings(const Step& sync, const Step& change, FileSystem system) {
  if (sync.action == Action::sync_all) return true;
  const bool of_names = change.action == Action::names;
  if (!of_names && change.inode == sync.inode) return true;
  if (system == FileSystem::ordered && sync.action == Action::sync) return change.action != Action::write;
  return of_names && sync.action == Action::sync && change.names.back().folder == sync.inode;
}

std::size_t sectors(const Step& s) {
  if (s.action != Action::write) return 1;
  const std::int64_t end = s.at + std::ssize(s.bytes);
  return static_cast<std::size_t>((end + kSector - 1) / kSector - s.at / kSector);
}

void write_sectors(const Step& s, const std::vector<bool>& kept, std::string& to) {
  const std::int64_t end = s.at + std::ssize(s.bytes), first = s.at / kSector;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const std::int64_t sector = (first + static_cast<std::int64_t>(i)) * kSector,
                       from = std::max(sector, s.at), until = std::min(sector + kSector, end);
    if (std::ssize(to) < until) to.resize(static_cast<std::size_t>(until));
    s.bytes.copy(to.data() + from, static_cast<std::size_t>(until - from),
                 static_cast<std::size_t>(from - s.at));
  }
}

void apply(const Step& s, const std::vector<bool>& kept, Disk& disk) {
  if (s.action == Action::write)
    return write_sectors(s, kept, disk.nodes[static_cast<std::size_t>(s.inode)].bytes);
  if (!kept[0]) return;
  if (s.action == Action::resize)
    disk.nodes[static_cast<std::size_t>(s.inode)].bytes.resize(static_cast<std::size_t>(s.at));
  for (const Name& n : s.names) {
    auto& entries = disk.nodes[static_cast<std::size_t>(n.folder)].entries;
    if (n.inode == kNobody)
      entries.erase(n.name);
    else
      entries[n.name] = n.inode;
  }
}

// Draws the survivors of one cut.
class Draw {
 public:
  Draw(const Recording& recording, std::mt19937& random) : recording_(recording), random_(random) {}

  PowerCut one() {
    PowerCut cut;
    cut.at = place();
    cut.system = below(3) == 0 ? FileSystem::ordered : FileSystem::loose;
    const std::vector<std::size_t> lost = unsynced(recording_, cut.at, cut.system);
    if (cut.system == FileSystem::ordered)
      draw_ordered(lost, cut);
    else
      draw_loose(lost, cut);
    cut.text = std::string(cut.system == FileSystem::loose ? "loose" : "ordered") + ", after " +
               std::to_string(cut.at) + " steps, " + cut.text;
    return cut;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  // Places half of the cuts near a change of names, where protocols can fail.
  std::size_t place() {
    const std::size_t n = recording_.steps.size(), at = below(n + 1);
    if (below(2) == 0) return at;
    for (std::size_t i = at; i < n; ++i)
      if (recording_.steps[i].action == Action::names) return i + below(std::min<std::size_t>(3, n - i) + 1);
    return n;
  }
  std::vector<bool> whole(std::size_t step) const {
    return std::vector<bool>(sectors(recording_.steps[step]), true);
  }

  // The first pages of a write.
  std::vector<bool> pages_of(const Step& s) {
    constexpr std::int64_t kSectors = kPage / kSector;
    const std::int64_t first = s.at / kSector, n = static_cast<std::int64_t>(sectors(s));
    const std::int64_t pages = (first + n - 1) / kSectors - first / kSectors + 1;
    const std::int64_t end =
        (first / kSectors + static_cast<std::int64_t>(below(static_cast<std::size_t>(pages)))) * kSectors;
    std::vector<bool> pieces(static_cast<std::size_t>(n));
    std::fill_n(pieces.begin(), std::clamp(end - first, std::int64_t{0}, n), true);
    return pieces;
  }

  void draw_loose(const std::vector<std::size_t>& lost, PowerCut& cut) {
    const std::size_t way = below(6), chosen = lost.empty() ? 0 : lost[below(lost.size())];
    cut.text =
        std::array{"nothing else", "everything", "all but one", "one", "a subset", "a torn subset"}[way];
    for (const std::size_t step : lost) {
      const bool kept = way == 1 || (way == 2 && step != chosen) || (way == 3 && step == chosen) ||
                        (way >= 4 && below(2) == 0);
      if (!kept) continue;
      std::vector<bool> pieces = whole(step);
      if (way == 5 && pieces.size() > 1)
        for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = below(2) == 0;
      cut.survivors[step] = pieces;
    }
  }

  void draw_ordered(const std::vector<std::size_t>& lost, PowerCut& cut) {
    cut.text = "a journal";
    const std::size_t journal = lost.empty() ? 0 : below(cut.at - lost[0] + 1) + lost[0];
    std::map<Inode, std::size_t> written;  // writes of a file that reach the disk
    for (const std::size_t step : lost)
      if (recording_.steps[step].action == Action::write) ++written[recording_.steps[step].inode];
    for (auto& [inode, writes] : written) writes = below(writes + 1);
    std::set<Inode> torn;
    for (const std::size_t step : lost) {
      const Step& s = recording_.steps[step];
      if (s.action != Action::write) {
        if (step < journal) cut.survivors[step] = {true};
      } else if (written[s.inode] > 0) {
        --written[s.inode];
        cut.survivors[step] = whole(step);
      } else if (torn.insert(s.inode).second) {  // the first write that is lost: up to a page of it arrived
        cut.survivors[step] = pages_of(s);
      }
    }
  }

  const Recording& recording_;
  std::mt19937& random_;
};

}  // namespace

std::vector<std::size_t> unsynced(const Recording& recording, std::size_t cut, FileSystem system) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < cut; ++i) {
    const Step& s = recording.steps[i];
    if (changes(s)) open.push_back(i);
    if (syncs(s))
      std::erase_if(open, [&](std::size_t step) { return brings(s, recording.steps[step], system); });
  }
  return open;
}

namespace {

Disk replayed(const Recording& recording, std::size_t cut, const std::vector<std::size_t>& open,
              const Survivors& survivors) {
  Disk disk = recording.before;
  std::size_t next = 0;
  for (std::size_t i = 0; i < cut; ++i) {
    const Step& s = recording.steps[i];
    const bool is_open = next < open.size() && open[next] == i;
    if (is_open) ++next;
    if (!changes(s)) continue;
    const auto kept = survivors.find(i);
    if (!is_open || kept != survivors.end())
      apply(s, is_open ? kept->second : std::vector<bool>(sectors(s), true), disk);
  }
  return disk;
}

}  // namespace

Disk disk_after(const Recording& recording, const PowerCut& cut) {
  return replayed(recording, cut.at, unsynced(recording, cut.at, cut.system), cut.survivors);
}

Disk disk_after_all(const Recording& recording, std::size_t cut) { return replayed(recording, cut, {}, {}); }

std::vector<PowerCut> power_cuts(const Recording& recording, int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Draw draw(recording, random);
  std::vector<PowerCut> cuts(static_cast<std::size_t>(count));
  std::generate(cuts.begin(), cuts.end(), [&] { return draw.one(); });
  return cuts;
}

}  // namespace ft::test
