// The live page of runs: the report of each moment, and a script that fetches it again until the runs have
// ended.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "app/report/run_page.h"

namespace ft {

class LivePage {
 public:
  // `folders`: of the runs. Throws UserError (input) if one holds no run.
  explicit LivePage(std::vector<std::string> folders);

  // Returns the page as of now; after the end of a single run its report.html, byte for byte. Reads only
  // files that have changed. Throws UserError if a run's files cannot be read. May be called from several
  // threads.
  std::string html();
  // Returns the state of a run: "a: step 12 of 75, 16 %, 3m12s left", or its end.
  static std::string progress(const RunPage&);
  std::vector<std::string> progress();

 private:
  struct Watched {
    std::string folder;
    std::string stamps;  // sizes and times of the files that the page was read from
    RunPage page;
  };
  void refresh();  // reads what has changed; html_ is then empty

  std::mutex mutex_;
  std::vector<Watched> runs_;
  std::string html_;
};

}  // namespace ft
