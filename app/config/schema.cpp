#include "app/config/schema.h"

#include "app/config/config.h"
#include "engine/settings/schema.h"

namespace ft {

std::string config_schema() { return json_text(schema_of<RunConfig>("A configuration of ft")) + "\n"; }

}  // namespace ft
