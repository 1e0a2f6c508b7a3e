// Shows the findings of ft doctor as text or JSON.
#pragma once
#include <string>
#include <vector>

#include "app/doctor/examination.h"
#include "app/screen/screen.h"

namespace ft {

struct Examined {  // the results of one machine
  std::string host;
  Findings findings;
  std::vector<Reached> reached;  // connections to the other machines
};

Json doctor_json(const std::vector<Examined>&);
void show_doctor(Screen&, const std::vector<Examined>&);
// Returns the exit code of the first bad finding, else Exit::peer_lost if a machine could not reach another
// one. Advice does not count.
Exit exit_of(const std::vector<Examined>&);

}  // namespace ft
