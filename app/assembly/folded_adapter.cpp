#include "app/assembly/folded_adapter.h"

#include "engine/files/file.h"
#include "engine/ops/ops.h"
#include "lora/folded/folded_base.h"

namespace ft {

void fold_adapter(BuiltModel& b, const std::string& adapter, const std::string& coded) {
  const lora::AdapterConfig config =
      lora::read_adapter_config(join_path(adapter, "adapter_config.json"), Exit::input, lora::KindsRead::all);
  b.lora = false;
  b.lora_config.peft_type = config.lora.peft_type;
  if (!coded.empty())
    throw UserError(Exit::input,
                    str(adapter, ": ", config.lora.peft_type->title, " changes weights, and those of ",
                        b.name, " are ", coded, "; write them dense first (ft export --to hf --from ", b.name,
                        " --output DENSE), and use that model"));
  if (!b.base) return;
  auto folded = std::make_unique<lora::FoldedBase>(std::move(b.base), adapter, b.model(),
                                                   origin_of(b.made.info, nullptr), make_ops({}));
  const auto& warnings = folded->adapter().warnings();
  b.warnings.insert(b.warnings.end(), warnings.begin(), warnings.end());
  b.folded = folded->linears();
  b.base = std::move(folded);
}

}  // namespace ft
