// Rules for every setting of a run that is resumed from a checkpoint.
#include "app/train/checkpoints/resume_rules.h"

#include <gtest/gtest.h>

#include "app/config/config.h"
#include "app/train/room.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

OnResume effect_of(const char* setting) {
  const ResumeRule* rule = find_resume_rule(setting);
  return rule ? rule->effect : OnResume::warned;
}

// Every setting, a new one too, has to declare whether it changes the trained function.
TEST(ResumeRules, EverySettingHasOne) {
  for (const Setting& s : describe<RunConfig>()) {
    if (s.type == "section") continue;
    EXPECT_NE(find_resume_rule(s.path), nullptr) << s.path;
  }
}

TEST(ResumeRules, SettingsThatChangeTheFunctionAreRefused) {
  for (const char* setting :
       {"model.model_name_or_path", "model.tokenizer_name_or_path", "lora.lora_alpha", "lora.use_rslora",
        "lora.alpha_pattern", "lora.target_modules", "objective.beta", "quantization.load_in_4bit",
        "training.optim", "training.bf16", "finetuning_type", "data.chat_template"})
    EXPECT_EQ(effect_of(setting), OnResume::refused) << setting;
  for (const char* setting :
       {"training.learning_rate", "training.lr_scheduler_type", "training.weight_decay",
        "training.adam_beta2", "training.per_device_train_batch_size", "training.seed",
        "data.datasets[].path", "data.shuffle", "data.datasets[].max_samples", "data.max_seq_length"})
    EXPECT_EQ(effect_of(setting), OnResume::warned) << setting;
  for (const char* setting : {"training.max_steps", "training.gradient_accumulation_steps"})
    EXPECT_EQ(effect_of(setting), OnResume::noted) << setting;
  for (const char* setting : {"training.output_dir", "logging.logging_steps", "checkpointing.save_steps",
                              "zero_optimization.stage", "training.gradient_checkpointing"})
    EXPECT_EQ(effect_of(setting), OnResume::free) << setting;
}

TEST(Room, IsAskedForBeforeARun) {
  RunConfig config;
  config.training.output_dir = testing::TempDir();
  constexpr std::int64_t kMuch = std::int64_t{1} << 60;
  EXPECT_NO_THROW(require_room(config, {.result = 1, .checkpoint = kMuch}, 0));
  EXPECT_NO_THROW(require_room(config, {.result = kMuch}, kMuch));
  try {
    require_room(config, {.result = 1, .checkpoint = kMuch / 4, .checkpoints = 4}, 0);
    ADD_FAILURE() << "there is no such disk";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::storage);
    EXPECT_NE(std::string(e.what()).find("checkpointing.save_total_limit"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ft
