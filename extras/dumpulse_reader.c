/* A reader of version 2. dumpulse_keyed.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

bool dumpulse_keyed_request(dumpulse_reader *reader, uint8_t packet[DUMPULSE_PACKET_SIZE],
                            const uint8_t nonce[2])
{
    uint_fast8_t i;

    if (reader->heard.left == 0) {
        return false;
    }
    dumpulse_count_(&reader->heard, packet, DUMPULSE_READER_LABEL, nonce[0], nonce[1]);
    reader->epoch = reader->heard.epoch;
    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> reader->asked[k] == packet[k];
        loop invariant \forall integer k; 0 <= k < 8 ==> packet[k] == \at(packet[k], LoopEntry);
        loop assigns i, reader->asked[0 .. 7];
        loop variant 8 - i; */
    for (i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        reader->asked[i] = packet[i];
    }
    return true;
}

/* The report is bytes here, tag and all: so the proof covers all that decides. */
static bool believed(dumpulse_reader *reader, uint8_t *report, size_t length)
{
    uint8_t had[8], differ = 0;
    uint_fast8_t i;

    /* If a later beacon was heard, the report may have been held back. */
    if (length != DUMPULSE_KEYED_REPORT_SIZE || reader->epoch == 0 ||
        reader->epoch != reader->heard.epoch) {
        return false;
    }
    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> had[k] == report[k];
        loop assigns i, had[0 .. 7];
        loop variant 8 - i; */
    for (i = 0; i != 8; i++) {
        had[i] = report[i];
    }
    dumpulse_report_tag_(reader->asked, reader->epoch, report);
    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> report[k] == had[k];
        loop invariant \forall integer k; i <= k < 8 ==> report[k] == \at(report[k], LoopEntry);
        loop invariant differ == 0 <==>
          (\forall integer k; 0 <= k < i ==> \at(report[k], LoopEntry) == had[k]);
        loop assigns i, differ, report[0 .. 7];
        loop variant 8 - i; */
    for (i = 0; i != 8; i++) {
        /*@ assert (uint8_t)(report[i] ^ had[i]) == (report[i] ^ had[i]); */
        differ |= (uint8_t)(report[i] ^ had[i]);
        report[i] = had[i];
    }
    if (differ != 0) {
        return false;
    }
    reader->epoch = 0;
    return true;
}

bool dumpulse_keyed_check(dumpulse_reader *reader, dumpulse_keyed_report *report, size_t length)
{
    return believed(reader, (uint8_t *)report, length);
}
