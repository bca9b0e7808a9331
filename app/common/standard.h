/* SPDX-License-Identifier: MIT */
/*
 * standard.h - descriptors 0, 1 and 2 of a program.
 *
 * One that is closed at the start would be the number of the next socket or event loop: what is printed goes into a
 * connection then, and libuv aborts when it closes one of them. So they become /dev/null, of which only
 * reading works: what is printed there fails as before.
 */
#pragma once

/* First in main(). Also: to write beyond the greatest size of a file fails, and no signal ends the program; what it
 * executes has the signal as it was. */
void standard_open(void);
/* A signal that would end the program does nothing from now on, unless it does something else already. What is
 * executed has it as it was. */
void standard_survive(int number);
