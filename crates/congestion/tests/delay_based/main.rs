//! Compound TCP, CCP, CCPD and the papers' CUBIC against their formulas: closed forms, and a second
//! implementation of each in plain floating point, written from the equations and not from the code.

mod ccp;
mod compound;
mod cubic;
mod flow;
mod hystart;
