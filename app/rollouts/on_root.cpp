#include "app/rollouts/on_root.h"

#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/ranks/together.h"
#include "engine/train/objectives/objective.h"

namespace ft {

void on_root(Communicator& comm, const std::function<void()>& work) {
  Json wrong;
  if (comm.rank() == 0) try {
      work();
    } catch (const UserError& e) {
      wrong = {static_cast<int>(e.code), e.what()};
    }
  const std::string refused = shared(comm, wrong.is_null() ? "" : json_text(wrong, -1));
  if (refused.empty()) return;
  wrong = Json::parse(refused);
  throw StepRefused(static_cast<Exit>(wrong[0].get<int>()), wrong[1].get<std::string>());
}

}  // namespace ft
