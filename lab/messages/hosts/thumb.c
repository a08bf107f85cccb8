/* Runs an image of the lab on a Cortex-M in Unicorn, and counts what is between its marks.
 *
 *     thumb CPU IMAGE ENTRY BEGIN END RESULT OVER
 *
 * CPU is m0 or m4; the others are hexadecimal addresses. For each run the program prints
 * "run INSTRUCTIONS STACK", then "right 1" or "right 0"; at the end "over". An instruction of an IT
 * block counts, whether its condition holds or not: the core fetches it either way.
 * SPDX-License-Identifier: MIT
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicorn/unicorn.h>

enum {
    FLASH = 0x08000000,
    FLASH_BYTES = 1 << 20,
    RAM = 0x20000000,
    RAM_BYTES = 1 << 20,
    STACK_BYTES = 1 << 19, /* the upper half */
    PAINT = 0xA5
};

static uint8_t stack[STACK_BYTES];
static uint16_t instructions_at[FLASH_BYTES / 2]; /* A block's instructions; 0: it has not run. */
static uint16_t bytes_at[FLASH_BYTES / 2];        /* its length, as a block may be cut */
static uint32_t begin, end, result, over;
static uint64_t instructions;
static uint32_t top, lowest_pointer; /* The stack pointer at a run's begin; its lowest value. */

static void fail(const char *what)
{
    fprintf(stderr, "thumb host: %s\n", what);
    exit(2);
}

static void need(uc_err error)
{
    if (error != UC_ERR_OK)
        fail(uc_strerror(error));
}

static uint32_t reg(uc_engine *engine, int which)
{
    uint32_t value;
    need(uc_reg_read(engine, which, &value));
    return value;
}

/* How many instructions a block has. The upper five bits of a halfword tell whether the
 * instruction has a second one. */
static uint16_t count(uc_engine *engine, uint64_t address, uint32_t size)
{
    uint8_t code[1 << 12];
    if (size > sizeof code || uc_mem_read(engine, address, code, size) != UC_ERR_OK)
        fail("a block that cannot be read");
    uint16_t found = 0;
    for (uint32_t at = 0; at < size; found++)
        at += code[at + 1] >= 0xE8 ? 4 : 2;
    return found;
}

static void run_ended(uc_engine *engine)
{
    need(uc_mem_read(engine, RAM + RAM_BYTES - STACK_BYTES, stack, sizeof stack));
    const uint32_t painted = top - (RAM + RAM_BYTES - STACK_BYTES);
    uint32_t lowest = 0;
    while (lowest < painted && stack[lowest] == PAINT)
        lowest++;
    if (lowest == 0)
        fail("overflow");
    const uint32_t written = painted - lowest, taken = top - lowest_pointer;
    printf("run %llu %u\n", (unsigned long long)instructions, written > taken ? written : taken);
}

static void on_block(uc_engine *engine, uint64_t address, uint32_t size, void *context)
{
    (void)context;
    const uint32_t at = (uint32_t)address;
    if (at - FLASH >= FLASH_BYTES)
        fail("code outside of the flash");
    const uint32_t slot = (at - FLASH) / 2;
    if (instructions_at[slot] == 0 || bytes_at[slot] != size) {
        instructions_at[slot] = count(engine, address, size);
        bytes_at[slot] = (uint16_t)size;
    }
    const uint32_t pointer = reg(engine, UC_ARM_REG_SP);
    if (pointer < lowest_pointer)
        lowest_pointer = pointer;
    if (at == begin) {
        top = lowest_pointer = pointer;
        memset(stack, PAINT, sizeof stack);
        need(uc_mem_write(engine, RAM + RAM_BYTES - STACK_BYTES, stack,
                          top - (RAM + RAM_BYTES - STACK_BYTES)));
        instructions = 0;
    } else if (at == end) {
        run_ended(engine);
    } else if (at == result) {
        printf("right %u\n", reg(engine, UC_ARM_REG_R0) & 1U);
    } else if (at == over) {
        puts("over");
        need(uc_emu_stop(engine));
    }
    instructions += instructions_at[slot];
}

/* Into flash, and at once to where the start-up code would copy it. */
static void load(uc_engine *engine, const char *image)
{
    const int file = open(image, O_RDONLY);
    if (file < 0 || elf_version(EV_CURRENT) == EV_NONE)
        fail("cannot read the image");
    Elf *const elf = elf_begin(file, ELF_C_READ, NULL);
    size_t segments = 0, size = 0;
    const char *const bytes = elf == NULL ? NULL : elf_rawfile(elf, &size);
    if (bytes == NULL || elf_getphdrnum(elf, &segments) != 0)
        fail("the image is no ELF file");
    for (size_t i = 0; i < segments; i++) {
        GElf_Phdr header;
        if (gelf_getphdr(elf, (int)i, &header) == NULL)
            fail("the image is damaged");
        if (header.p_type == PT_LOAD && header.p_filesz > 0)
            need(uc_mem_write(engine, header.p_vaddr, bytes + header.p_offset, header.p_filesz));
    }
}

static uint32_t address(const char *hex)
{
    return (uint32_t)strtoul(hex, NULL, 16);
}

int main(int argc, char **argv)
{
    if (argc != 8)
        fail("usage: thumb CPU IMAGE ENTRY BEGIN END RESULT OVER");
    uc_engine *engine;
    need(uc_open(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS, &engine));
    need(uc_ctl_set_cpu_model(engine, strcmp(argv[1], "m0") == 0 ? UC_CPU_ARM_CORTEX_M0
                                                                 : UC_CPU_ARM_CORTEX_M4));
    need(uc_mem_map(engine, FLASH, FLASH_BYTES, UC_PROT_READ | UC_PROT_EXEC));
    need(uc_mem_map(engine, RAM, RAM_BYTES, UC_PROT_READ | UC_PROT_WRITE));
    load(engine, argv[2]);
    begin = address(argv[4]);
    end = address(argv[5]);
    result = address(argv[6]);
    over = address(argv[7]);
    uc_hook hook;
    need(uc_hook_add(engine, &hook, UC_HOOK_BLOCK, (void *)on_block, NULL, 1, 0));
    const uint32_t first_stack = RAM + RAM_BYTES;
    need(uc_reg_write(engine, UC_ARM_REG_SP, &first_stack));
    need(uc_emu_start(engine, address(argv[3]) | 1U, 0, 0, 0));
    return 0;
}
