// The lines that a training run shows, as the documentation has them.
#include "app/screen/run_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "app/screen/format.h"

namespace ft {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

RunHeader llama() {
  RunHeader h;
  h.version = "0.1";
  h.config = "run.json";
  h.output = "outputs/gsm8k";
  h.model = "models/llama-2-7b";
  h.architecture = "LlamaForCausalLM";
  h.dtype = "bf16";
  h.parameters = 6'738'415'616;
  h.trained_parameters = 39'976'960;
  h.adapter = AdapterHeader{
      "LoRA", "r 16", 32, 224, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  h.data = {.samples = 7473,
            .tokens = 1'600'000,
            .target_tokens = 656'000,
            .held_out = 74,
            .sequences = 394,
            .length = 4096,
            .packed = true};
  h.memory = {.weights = kGiB * 126 / 10,
              .adapter = kGiB * 3 / 10,
              .optimizer = kGiB * 3 / 10,
              .activations = kGiB * 91 / 10,
              .scratch = kGiB * 2 / 10,
              .total = kGiB * 225 / 10};
  h.memory_there = kGiB * 1398 / 10;
  h.peak_flops = 1e15;
  h.steps = 75;
  h.steps_per_epoch = 25;
  h.sequences_per_step = 16;
  return h;
}

std::vector<std::string> texts(const std::vector<LabelledLine>& lines) {
  std::vector<std::string> out;
  for (const auto& line : lines) out.push_back(line.label + ": " + line.text);
  return out;
}

TEST(RunText, Header) {
  EXPECT_EQ(title_line(llama()), "ft 0.1  run.json -> outputs/gsm8k");
  EXPECT_EQ(texts(header_lines(llama())),
            (std::vector<std::string>{
                "model: LlamaForCausalLM, 6.74 B parameters, bf16, from models/llama-2-7b",
                "adapter: LoRA r 16, alpha 32, on 224 linears (q k v o gate up down): 40.0 M trained, 0.59 %",
                "data: 7,473 samples, 1.60 M tokens (41 % trained), packed into 394 x 4,096 (99.1 % full); "
                "74 samples held out",
                "memory: weights 12.6 + adapter 0.3 + optimizer 0.3 + activations 9.1 + workspace 0.2 = 22.5 "
                "of 139.8 GiB",
                "steps: 25 per epoch, 75 in all; 16 packed sequences per step"}));
}

TEST(RunText, HeaderOfBlocksThatKeepMore) {
  RunHeader h = llama();
  h.memory.cuda = kGiB;
  h.whole = 20;
  const auto lines = texts(header_lines(h));
  const auto memory = std::ranges::find_if(lines, [](const auto& l) { return l.starts_with("memory: "); });
  ASSERT_NE(memory, lines.end());
  EXPECT_NE(memory->find(" + CUDA 1.0 = "), std::string::npos) << *memory;
  EXPECT_TRUE(memory->ends_with("; keeps norms and activations of 20 blocks")) << *memory;
}

TEST(RunText, HeaderOfRecomputedBlocks) {
  RunHeader h = llama();
  h.blocks = h.recomputed = 32;
  EXPECT_TRUE(texts(header_lines(h))[3].ends_with(" GiB; recomputes 32 of 32 blocks"));
  h.segment = 5;
  EXPECT_TRUE(texts(header_lines(h))[3].ends_with(
      "; recomputes 32 of 32 blocks, 5 at a time from the input of the first"));
}

TEST(RunText, StepsOfFewPacksNameTheirNumber) {
  RunHeader h = llama();
  h.data.sequences = 1;
  EXPECT_EQ(sequences_text(h), "1 packed sequence");
  h.data.sequences = 0;  // a stream
  EXPECT_EQ(sequences_text(h), "16 packed sequences");
  h.data.packed = false;
  EXPECT_EQ(sequences_text(h), "16 sequences");
}

TEST(RunText, HeaderOfFullFineTuningResumed) {
  RunHeader h = llama();
  h.adapter.reset();
  h.trained_parameters = h.parameters;
  h.data.packed = false;
  h.data.held_out = 1;
  h.resumed_step = 50;
  const auto lines = texts(header_lines(h));
  EXPECT_EQ(lines[1], "training: full fine-tuning: 6.74 B parameters trained, 100 %");
  EXPECT_EQ(lines[2], "data: 7,473 samples, 1.60 M tokens (41 % trained), longest 4,096; 1 sample held out");
  EXPECT_EQ(lines[5], "resumed: after step 50, 25 to go");
}

TEST(RunText, ManyTargetsAreCut) {
  RunHeader h = llama();
  h.adapter->targets.assign(15, "x");
  EXPECT_NE(texts(header_lines(h))[1].find("(x x x x x x x x x x x x and 3 more)"), std::string::npos);
}

const StepRow kRow{.step = 12,
                   .epoch = 0.48,
                   .loss = 0.8712,
                   .learning_rate = 1.9e-4,
                   .grad_norm = 0.42,
                   .tokens_per_second = 19'812,
                   .num_input_tokens_seen = 786'432,
                   .flops_per_second = 0.76e15};

TEST(RunText, CompleteStepLine) {
  const RunHeader h = llama();
  EXPECT_EQ(
      step_line({h, kRow, 192}, 0, Bar::none),
      "12/75  16 %  loss 0.871  lr 1.9e-04  grad 0.42  19.8k tok/s  76 % of peak  22.5 GiB  3m12s left");
  StepRow skipped = kRow;  // in fp16
  skipped.grad_norm = INFINITY;
  skipped.loss_scaling = LossScalingRow{65536, 1};
  EXPECT_EQ(step_line({h, skipped, 192}, 79, Bar::none),
            "12/75  16 %  loss 0.871  lr 1.9e-04  skipped  19.8k tok/s  3m12s left");
  StepRow none = kRow;  // no targets
  none.loss = NAN;
  EXPECT_EQ(step_line({h, none, 192}, 40, Bar::none), "12/75  16 %  loss -  3m12s left");
}

TEST(RunText, StepLineFitsEveryWidthAndKeepsWhatMattersMost) {
  const RunHeader h = llama();
  const StepView view{h, kRow, 192};
  EXPECT_EQ(step_line(view, 79, Bar::utf8),
            "12/75  16 %  loss 0.871  lr 1.9e-04  grad 0.42  19.8k tok/s  3m12s left");
  EXPECT_EQ(step_line(view, 39, Bar::utf8), "12/75  16 %  loss 0.871  3m12s left");
  EXPECT_EQ(step_line(view, 20, Bar::utf8), "12/75  loss 0.871");
  for (int width = 20; width < 240; ++width) {
    const std::string line = step_line(view, width, Bar::utf8);
    EXPECT_LE(show::columns(line), width);
    EXPECT_NE(line.find("loss 0.871"), std::string::npos);
  }
  EXPECT_NE(step_line(view, 199, Bar::ascii).find("12/75  ======....."), std::string::npos);
}

TEST(RunText, UnknownNumbersAreLeftOut) {
  RunHeader h = llama();
  h.peak_flops = 0;
  h.memory.total = 0;
  EXPECT_EQ(step_line({h, kRow, -1}, 0, Bar::none),
            "12/75  16 %  loss 0.871  lr 1.9e-04  grad 0.42  19.8k tok/s");
}

TEST(RunText, EvaluationAndCheckpoint) {
  EXPECT_EQ(evaluation_line({.step = 50, .epoch = 2, .eval_loss = 0.812, .perplexity = 2.2524, .best = true}),
            "step 50  eval loss 0.812  perplexity 2.25  best so far");
  SavedRow saved{.step = 1050, .seconds = 0.9, .waited = {}, .folder = "outputs/gsm8k/checkpoint-1050"};
  EXPECT_EQ(saved_line(saved), "step 1,050  saved checkpoint-1050 (0.9 s)");
  saved.waited = 0.2;
  EXPECT_EQ(saved_line(saved), "step 1,050  saved checkpoint-1050 (0.9 s, training waited 0.2 s)");
}

TEST(RunText, StepsWithoutTargetsHaveNoPartInTheSummary) {
  Summary s;
  s.step = 4;
  const auto loss = [&](const std::vector<double>& losses) {
    return texts(summary_lines(llama(), s, {losses, {}, 0, 0}))[1];
  };
  EXPECT_EQ(loss({NAN, 1.412, 0.9, NAN}), "loss: 1.412 -> 0.900");
  EXPECT_EQ(loss({NAN, NAN}), "loss: -");
}

TEST(RunText, Summary) {
  Summary s;
  s.step = 75;
  s.train_runtime = 249;
  s.train_tokens_per_second = 19'700;
  s.memory.total = kGiB * 225 / 10;
  s.made = {{"adapter", "outputs/gsm8k/adapter_model.safetensors", 80'000'000},
            {"plot", "outputs/gsm8k/loss.svg", 0}};
  s.next = {"ft merge --model a", "ft eval --model a"};
  const Course course{
      {1.412, 0.9, 0.644},
      {{.step = 25, .eval_loss = 1.388}, {.step = 50, .eval_loss = 0.7}, {.step = 75, .eval_loss = 0.701}},
      0.7,
      50};
  EXPECT_EQ(texts(summary_lines(llama(), s, course)),
            (std::vector<std::string>{
                "done: 75 steps in 4m09s, 19.7k tok/s, peak 22.5 GiB (planned 22.5)",
                "loss: 1.412 -> 0.644   held out 1.388 -> 0.701 (best 0.700 at step 50)",
                "adapter: outputs/gsm8k/adapter_model.safetensors (80.0 MB)", "plot: outputs/gsm8k/loss.svg",
                "next: ft merge --model a", ": ft eval --model a"}));
  s.finished = false;
  s.step = 50;
  s.why = "SIGTERM; checkpoint-50 is saved";
  EXPECT_EQ(texts(summary_lines(llama(), s, {}))[0],
            "stopped: after step 50 of 75, 4m09s, 19.7k tok/s, peak 22.5 GiB (planned 22.5): SIGTERM; "
            "checkpoint-50 is saved");
}

TEST(RunText, AStoppedRunShowsTheCommandToContinue) {
  Summary s;
  s.finished = false;
  s.step = 1;
  s.why = "Ctrl-C";
  s.train_runtime = 22;
  s.train_tokens_per_second = 415;
  s.resume = "ft train --config 'my run/run.json' training.resume_from_checkpoint=auto";
  const auto lines = summary_lines(llama(), s, {.loss = {1.529}});
  EXPECT_EQ(lines[0].label, "stopped by Ctrl-C after step 1 of 75.");
  EXPECT_EQ(lines[0].text, "Continue: " + s.resume);
  EXPECT_TRUE(lines[0].whole);
  EXPECT_EQ(texts(lines)[1], "took: 22 s, 415 tok/s");
  EXPECT_EQ(texts(lines)[2], "loss: 1.529");
}

TEST(RunText, RatesAndPromptsInTheHeader) {
  RunHeader h = llama();
  h.learning_rate = 1e-6;
  h.schedule = "linear";
  h.usual_rate = "dpo";
  h.data = {.samples = 200, .tokens = 12'000};
  const auto lines = texts(header_lines(h));
  EXPECT_EQ(lines[2], "data: 200 prompts, 12,000 tokens");
  EXPECT_EQ(lines.back(), "rate: 1.0e-06, linear (default of dpo: training.learning_rate)");
  h.usual_rate = "";
  EXPECT_EQ(texts(header_lines(h)).back(), "rate: 1.0e-06, linear");
}

TEST(RunText, RewardsAreShown) {
  const RunHeader h = llama();
  StepRow row = kRow;
  row.columns = {{"reward", 0.3125}, {"reward_std", 0.1}};
  EXPECT_NE(step_line({h, row, 192}, 0, Bar::none).find("loss 0.871  reward 0.312  lr"), std::string::npos);
  Course course{.loss = {0, 0}};
  course.take_rewards({{"reward", 0.25}, {"frac_reward_zero_std", 1}});
  course.take_rewards({{"reward", 0.5}, {"frac_reward_zero_std", 1}});
  EXPECT_EQ(
      texts(summary_lines(h, {}, course)).back(),
      "reward: 0.250 -> 0.500: nothing was learned, since in every step all answers to a prompt got the same "
      "reward");
  course.take_rewards({{"reward", 0.75}, {"frac_reward_zero_std", 0.5}});
  EXPECT_EQ(texts(summary_lines(h, {}, course)).back(),
            "reward: 0.250 -> 0.750; nothing was learned in 2 of 3 steps, where all answers to a prompt got "
            "the same "
            "reward");
}

TEST(RunText, MicroBatchesOfAStep) {
  const RunHeader h = llama();
  const StepRow none;
  EXPECT_EQ(first_step_line({h, none, -1, 3, 8}, 12), " 0/75  step 1, micro-batch 3/8  12 s");
  EXPECT_EQ(first_step_line({h, none, -1, 1, 1}, 12), " 0/75  step 1  12 s");
  EXPECT_NE(step_line({h, kRow, 192, 3, 8}, 0, Bar::none).find("  micro-batch 3/8  "), std::string::npos);
}

}  // namespace
}  // namespace ft
